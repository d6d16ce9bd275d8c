//! `cargo xtask chaos`: real servers and clients under faults, and an operator beside them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{cargo, open};

/// The program, which knows the options.
const PROGRAM: &str = "leasehold-chaos";

/// Builds the program together with the `leasehold` command, which its operator runs, and hands the
/// arguments on to it.
pub(crate) fn chaos(args: &[String]) -> Result<bool, String> {
    // The smallest command that knows every engine.
    let mut build = cargo(["build", "-q", "--release", "--no-default-features"]);
    build.args(["--features", "leasehold-cli/etcd"]);
    build.args(["-p", "leasehold-cli", "-p", PROGRAM]);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = build.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Ok(false);
    }
    let program = executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("cargo did not say where {PROGRAM} is"))?;
    open(Command::new(program).args(args))
}

/// The path of the program, from what cargo says of each thing that it has built.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == PROGRAM);
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_what_cargo_has_built() {
        let messages = r#"
            {"reason":"compiler-artifact","target":{"name":"leasehold"},"executable":"/t/leasehold"}
            {"reason":"compiler-artifact","target":{"name":"leasehold-chaos"},"executable":null}
            {"reason":"compiler-artifact","target":{"name":"leasehold-chaos"},"executable":"/t/chaos"}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages), Some("/t/chaos".into()));
        assert_eq!(executable("no JSON"), None);
    }
}
