//! Documents that a command of this workspace prints: written by `fix`, compared by `tidy`.

use std::fs;

use crate::run::{cargo, quiet, root};
use crate::tidy::Violation;

/// A document and where it comes from.
pub(crate) struct Doc {
    /// Arguments of `cargo`; what they print on standard output is the document.
    pub(crate) cargo: &'static [&'static str],
    /// The document's path from the root.
    pub(crate) file: &'static str,
}

/// All of them, but for what `cargo xtask matrix` writes.
pub(crate) const DOCS: &[Doc] = &[];

/// Writes each document anew.
pub(crate) fn write(docs: &[Doc]) -> Result<(), String> {
    for doc in docs {
        let text = quiet(cargo([]).args(doc.cargo))?;
        fs::write(root().join(doc.file), text).map_err(|error| format!("{}: {error}", doc.file))?;
    }
    Ok(())
}

/// The documents that are not what their command prints now.
pub(crate) fn stale(docs: &[Doc]) -> Vec<Violation> {
    let mut found = Vec::new();
    for doc in docs {
        match quiet(cargo([]).args(doc.cargo)) {
            Ok(text) if fs::read_to_string(root().join(doc.file)).is_ok_and(|now| now == text) => {}
            Ok(_) => {
                let what = "is not what its command prints now";
                found.push(Violation::of(doc.file, what, "cargo xtask fix"));
            }
            Err(output) => found.push(Violation::of(doc.file, "cannot be generated", &output)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_its_command_does_not_print_is_stale() {
        let stale = stale(&[Doc { cargo: &["--version"], file: "Cargo.toml" }]);
        assert_eq!(stale.len(), 1);
        assert_eq!(stale[0].file, "Cargo.toml");
    }
}
