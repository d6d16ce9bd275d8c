//! `cargo xtask dist check`: installs the Debian package in an empty Debian, uses it, and removes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{self, is_installed};
use super::{Release, failed};
use crate::run::{open, root};
use crate::ui::{Outcome, step};

/// Runs in the empty Debian: what a user does, and what must be left.
const SCRIPT: &str = include_str!("clean.sh");

/// What the script looks with. Neither Rust nor a library for the command is among them.
const PROGRAMS: &str = "bash-completion,fish,man-db,systemd,zsh";

/// Checks the package that is named, or that of `cargo xtask dist` for this machine.
pub(super) fn check(args: &[String]) -> Result<bool, String> {
    let package = match args {
        [] => newest()?,
        [file] => PathBuf::from(file),
        [_, extra, ..] => return Err(format!("takes one package, got `{extra}` too")),
    };
    let bytes = fs::metadata(&package).map_err(|error| {
        format!("{}; `cargo xtask dist` makes it", failed("read", &package, &error))
    })?;
    if !is_installed("mmdebstrap") {
        let why =
            "not checked here; it needs: apt-get install mmdebstrap; then: cargo xtask dist check";
        return Ok(step("check", || Outcome::Left(why.to_owned())));
    }
    println!("  {} ({} kB)", package.display(), bytes.len().div_ceil(1000));
    let (script, suite) = (root().join("target/dist/clean.sh"), suite());
    fs::create_dir_all(root().join("target/dist")).map_err(|error| error.to_string())?;
    fs::write(&script, SCRIPT).map_err(|error| failed("write", &script, &error))?;
    let held = open(&mut debian(&package, &script, &suite))?;
    Ok(step("check", || match held {
        true => Outcome::Good(format!("in an empty Debian ({suite})")),
        false => Outcome::Bad("the package is not as promised; see above".to_owned()),
    }))
}

/// Makes a Debian with nothing but its essential packages and `PROGRAMS`, runs the script in it, and throws it away.
fn debian(package: &Path, script: &Path, suite: &str) -> Command {
    let mut command = Command::new("mmdebstrap");
    command
        // It is thrown away: nothing has to reach the disk.
        .args(["--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io"])
        .arg(format!("--include={PROGRAMS}"))
        .arg(format!("--customize-hook=upload '{}' /leasehold.deb", package.display()))
        .arg(format!("--customize-hook=upload '{}' /clean.sh", script.display()))
        .arg("--customize-hook=chroot \"$1\" sh /clean.sh /leasehold.deb")
        // It is not kept.
        .args([suite, "/dev/null"]);
    command
}

fn newest() -> Result<PathBuf, String> {
    let release = Release::new(root().join("target/dist"))?;
    let target = build::TARGETS.iter().find(|target| target.runs_here());
    let target = target.ok_or("no target of a release runs on this machine; name a package")?;
    Ok(release.place.join(format!("leasehold_{}_{}.deb", release.version, target.debian)))
}

/// The Debian of this machine; elsewhere the stable one.
fn suite() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| release.lines().find_map(|line| line.strip_prefix(name));
    match (field("ID="), field("VERSION_CODENAME=")) {
        (Some("debian"), Some(suite)) => suite.to_owned(),
        _ => "stable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::run::quiet;

    use super::*;

    #[test]
    fn the_script_is_one_that_a_shell_can_read() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("clean.sh");
        fs::write(&script, SCRIPT).unwrap();
        quiet(Command::new("sh").arg("-n").arg(&script)).unwrap();
    }

    #[test]
    fn the_empty_debian_gets_no_compiler() {
        let command = debian(Path::new("/a b/x.deb"), Path::new("/s"), "bookworm");
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.contains(&"--customize-hook=upload '/a b/x.deb' /leasehold.deb".into()));
        assert!(
            !words.iter().any(|word| word.contains("rust") || word.contains("gcc")),
            "{words:?}"
        );
    }
}
