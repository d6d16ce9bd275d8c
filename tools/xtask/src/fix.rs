//! `cargo xtask fix`: everything about the tree that a program can put right.

use crate::matrix;
use crate::run::{cargo, quiet};
use crate::tidy::{articles, circles, errors};
use crate::ui::{Outcome, step};

/// All steps; goes on after one that failed.
pub(crate) fn fix() -> bool {
    // Formats last, since clippy's suggestions are not formatted.
    let clippy = step("clippy", || {
        quiet(cargo(["clippy", "-q", "--fix", "--allow-dirty", "--allow-staged"]).args([
            "--workspace",
            "--all-targets",
            "--all-features",
        ]))
        .into()
    });
    let fmt = step("fmt", || quiet(&mut cargo(["fmt", "--all"])).into());
    let docs = step("docs", || {
        match errors::write().and_then(|()| articles::write()).and_then(|()| circles::write()) {
            Ok(()) => Outcome::Good(String::new()),
            Err(message) => Outcome::Bad(message),
        }
    });
    let matrix = matrix::matrix(&[]).unwrap_or_else(|message| {
        eprintln!("{message}");
        false
    });
    clippy & fmt & docs & matrix
}
