//! `cargo xtask dist again`: builds the release a second time in another folder, and compares the bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{TARGETS, Target};
use super::failed;
use crate::run::{open, quiet, root};
use crate::ui::{Outcome, step};

/// Needs `cargo xtask dist` of the same revision before, and builds its targets where none is named. Other sources, another target
/// directory and another path of both.
pub(super) fn again(targets: &[String]) -> Result<bool, String> {
    let first = root().join("target/dist/SHA256SUMS");
    let sums = fs::read_to_string(&first).map_err(|error| {
        format!("{}; run `cargo xtask dist` first", failed("read", &first, &error))
    })?;
    let changed = quiet(Command::new("git").current_dir(root()).args([
        "status",
        "--porcelain",
        "--untracked-files=no",
    ]))?;
    if !changed.is_empty() {
        return Err(format!("the second build is of the commit; commit these first:\n{changed}"));
    }
    let targets = match targets {
        [] => built(&sums),
        named => named.to_vec(),
    };
    let place = std::env::temp_dir().join(format!("leasehold-again-{}", std::process::id()));
    let other = Worktree::at(place.clone())?;
    let built = build(&place, &targets)?;
    let held = step("again", || {
        let path = place.join("target/dist/SHA256SUMS");
        match fs::read_to_string(&path) {
            Ok(again) if built => compared(&sums, &again).map_or_else(Outcome::Bad, Outcome::Good),
            Ok(_) => Outcome::Bad("the second build has failed".to_owned()),
            Err(error) => Outcome::Bad(failed("read", &path, &error)),
        }
    });
    match held {
        true => other.remove()?,
        false => println!("  the second build is kept in {}", place.display()),
    }
    Ok(held)
}

/// The targets whose archives the first build made.
fn built(sums: &str) -> Vec<String> {
    let names = by_name(sums);
    let is_built = |target: &&Target| {
        names.keys().any(|name| name.ends_with(&format!("-{}.tar.gz", target.triple)))
    };
    TARGETS.iter().filter(is_built).map(|target| target.triple.to_owned()).collect()
}

/// Runs this program for the other tree.
fn build(place: &Path, targets: &[String]) -> Result<bool, String> {
    let this = std::env::current_exe().map_err(|error| format!("no path of xtask: {error}"))?;
    open(
        Command::new(this)
            .current_dir(place)
            .arg("dist")
            .args(targets)
            .env("CARGO_MANIFEST_DIR", place.join("tools/xtask")),
    )
}

/// The sources of this commit in another folder.
struct Worktree(PathBuf);

impl Worktree {
    fn at(place: PathBuf) -> Result<Self, String> {
        let add = ["worktree", "add", "--quiet", "--detach"];
        quiet(Command::new("git").current_dir(root()).args(add).arg(&place).arg("HEAD"))?;
        Ok(Self(place))
    }

    fn remove(self) -> Result<(), String> {
        let remove = ["worktree", "remove", "--force"];
        quiet(Command::new("git").current_dir(root()).args(remove).arg(&self.0)).map(|_| ())
    }
}

/// Compares the files that the second build made; the first may have had more targets.
fn compared(first: &str, again: &str) -> Result<String, String> {
    let (first, again) = (by_name(first), by_name(again));
    let differ: Vec<&str> = again
        .iter()
        .filter(|(name, sum)| first.get(*name) != Some(*sum))
        .map(|(name, _)| *name)
        .collect();
    match (again.is_empty(), differ.is_empty()) {
        (true, _) => Err("the second build has made no file".to_owned()),
        (false, true) => {
            Ok(format!("the same bytes: {}", again.keys().copied().collect::<Vec<_>>().join(", ")))
        }
        (false, false) => Err(format!(
            "other bytes: {}; compare the two with diffoscope(1), or `tar -tv` and `cmp`",
            differ.join(", ")
        )),
    }
}

/// Reads the lines of sha256sum(1).
fn by_name(sums: &str) -> BTreeMap<&str, &str> {
    sums.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name, sum)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_before_is_built_again() {
        let sums =
            "aa  leasehold-0.2.0-x86_64-unknown-linux-musl.tar.gz\nbb  leasehold_0.2.0_amd64.deb\n";
        assert_eq!(built(sums), ["x86_64-unknown-linux-musl"]);
    }

    #[test]
    fn a_file_with_other_bytes_is_named() {
        let first = "aa  one.deb\nbb  two.deb\ncc  other-target.deb\n";
        assert!(
            compared(first, "aa  one.deb\nbb  two.deb\n").unwrap().contains("one.deb, two.deb")
        );
        let differ = compared(first, "aa  one.deb\nb0  two.deb\n").unwrap_err();
        assert!(differ.contains("two.deb") && !differ.contains("one.deb"), "{differ}");
        assert!(compared(first, "dd  new.deb\n").unwrap_err().contains("new.deb"));
        assert!(compared(first, "").unwrap_err().contains("no file"));
    }
}
