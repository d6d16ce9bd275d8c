//! Builds the test programs of the workspace and lists them.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::run::cargo;

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Binary {
    /// Its package and target: `leasehold-redis::quorum`, or the package alone for its unit tests.
    pub(super) name: String,
    pub(super) executable: PathBuf,
    /// The directory of its package, in which it runs.
    pub(super) package: PathBuf,
}

/// Builds all of them, in sight.
pub(super) fn build() -> Result<Vec<Binary>, String> {
    let output = cargo(["test", "--workspace", "--all-features", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo test: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(read).collect())
}

/// What one message of cargo says, if it is about a test program.
fn read(message: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let package = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = &message["target"];
    let kind = target["kind"][0].as_str()?;
    let package_name = package.file_name()?.to_string_lossy().into_owned();
    let name = match kind {
        "test" => format!("{package_name}::{}", target["name"].as_str()?),
        "bin" => format!("{package_name}::bin"),
        _ => package_name,
    };
    Some(Binary { name, executable, package })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_read_and_other_messages_are_not() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml",
            "target":{"kind":["test"],"name":"t"},"profile":{"test":true},"executable":"/t/x"}"#;
        let binary = Binary {
            name: "a::t".into(),
            executable: "/t/x".into(),
            package: "/r/crates/a".into(),
        };
        assert_eq!(read(message), Some(binary));
        assert_eq!(read(&message.replace("\"test\":true", "\"test\":false")), None);
        assert_eq!(read(&message.replace("\"/t/x\"", "null")), None);
        assert_eq!(read("not JSON"), None);
    }
}
