//! How the tasks start other programs.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::ui;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.ancestors().nth(2).map_or(xtask.clone(), PathBuf::from)
}

/// The cargo that started us, to be run in the root of the repository.
///
/// It does not get the variables that `cargo run` sets for us: build scripts that watch them (that
/// of `ring`) would run again, and all that depends on them would be built again, whenever
/// `cargo test` and `cargo xtask` take turns.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    if ui::colourful() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

/// Runs it out of sight: what it printed on standard output, or all that it said when it failed.
pub(crate) fn quiet(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", shown(command)))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complained = String::from_utf8_lossy(&output.stderr);
    Err(format!("{complained}{said}{} failed ({})", shown(command), output.status))
}

/// Runs it in sight; false when it failed.
pub(crate) fn open(command: &mut Command) -> Result<bool, String> {
    let status =
        command.status().map_err(|error| format!("cannot run {}: {error}", shown(command)))?;
    Ok(status.success())
}

/// Runs it in sight, and passes each line of its standard output to `line`; false when it failed.
pub(crate) fn open_and_read(
    command: &mut Command,
    mut line: impl FnMut(&str),
) -> Result<bool, String> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cannot run {}: {error}", shown(command)))?;
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        while output.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            // A reader that is gone does not keep the tests from their end.
            let _ = io::stdout().write_all(&bytes);
            line(&String::from_utf8_lossy(&bytes));
            bytes.clear();
        }
    }
    let status =
        child.wait().map_err(|error| format!("cannot wait for {}: {error}", shown(command)))?;
    Ok(status.success())
}

/// Returns the command as a user would type it.
fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    format!("`{}`", words.join(" "))
}
