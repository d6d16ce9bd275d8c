//! Finds the programs that the kit starts, and knows which of them must be there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

/// The directories where Debian installs servers, which are not in every user's `PATH`.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The path of an installed program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(SBIN.iter().map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|file| Path::is_file(file))
}

/// The path of an installed program of this Debian package, or the error that it is missing.
pub(crate) fn needed(program: &str, package: &str) -> io::Result<PathBuf> {
    find(program).ok_or_else(|| missing(program, package))
}

/// The error for a program that is not installed.
pub(crate) fn missing(program: &str, package: &str) -> io::Error {
    let what = format!("{program} is not installed (package {package})");
    io::Error::new(io::ErrorKind::NotFound, what)
}

/// Whether `LEASEHOLD_REQUIRE` (names with commas between them) has this name: a test whose
/// program is missing then fails instead of being ignored.
pub fn required(name: &str) -> bool {
    let names = env::var("LEASEHOLD_REQUIRE").unwrap_or_default();
    names.split(',').any(|required| required.trim() == name)
}

/// `setpriv`, still without its arguments.
pub(crate) fn setpriv() -> io::Result<Command> {
    Ok(Command::new(needed("setpriv", "util-linux")?))
}
