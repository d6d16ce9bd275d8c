//! `cargo xtask matrix`: what each backend was seen to do, written by the conformance suite.

use std::path::Path;
use std::{env, fs, process};

use crate::needs;
use crate::run::{cargo, open, root};

/// The suite writes the first where `LEASEHOLD_MATRIX` says, and the second beside it.
const FILES: [&str; 2] = ["conformance-matrix.json", "guarantees.md"];

/// Writes the files to `docs/`, or compares them with what is there.
pub(crate) fn matrix(args: &[String]) -> Result<bool, String> {
    let docs = root().join("docs");
    match args {
        [] => suite(&docs, None),
        // Of the other cases the files keep what they say.
        [case] if !case.starts_with('-') => suite(&docs, Some(case)),
        [check] if check == "--check" => {
            let fresh = env::temp_dir().join(format!("leasehold-matrix-{}", process::id()));
            let held = suite(&fresh, None).and_then(|held| Ok(same(&fresh, &docs)? && held));
            let _ = fs::remove_dir_all(&fresh);
            held
        }
        [arg, ..] => Err(format!("knows --check, or a case by its name; got `{arg}`")),
    }
}

fn suite(dir: &Path, case: Option<&str>) -> Result<bool, String> {
    needs::ensure()?;
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    open(
        cargo(["test", "-p", "leasehold-conformance", "--all-features", "--test", "conformance"])
            .args(case.iter().flat_map(|case| ["--", *case]))
            .env("LEASEHOLD_MATRIX", dir.join(FILES[0]))
            .env("LEASEHOLD_REQUIRE", needs::required()),
    )
}

fn same(fresh: &Path, docs: &Path) -> Result<bool, String> {
    for file in FILES {
        let now = fs::read(fresh.join(file))
            .map_err(|error| format!("the suite wrote no {file}: {error}"))?;
        if fs::read(docs.join(file)).ok() != Some(now) {
            return Err(format!("docs/{file} is not current; write it with `cargo xtask matrix`"));
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_that_the_suite_would_write_otherwise_is_not_current() {
        let (fresh, docs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for file in FILES {
            fs::write(fresh.path().join(file), "now").unwrap();
            fs::write(docs.path().join(file), "now").unwrap();
        }
        assert_eq!(same(fresh.path(), docs.path()), Ok(true));
        fs::write(docs.path().join(FILES[1]), "then").unwrap();
        assert!(same(fresh.path(), docs.path()).unwrap_err().contains(FILES[1]));
        fs::remove_file(fresh.path().join(FILES[0])).unwrap();
        assert!(same(fresh.path(), docs.path()).unwrap_err().contains("wrote no"));
    }
}
