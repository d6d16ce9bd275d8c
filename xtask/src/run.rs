//! How the tasks start other programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::ui;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map_or(xtask.clone(), PathBuf::from)
}

/// The cargo that started us, to be run in the root of the repository.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
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

/// The command as somebody would type it.
fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    format!("`{}`", words.join(" "))
}
