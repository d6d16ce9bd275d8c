//! `cargo xtask tidy`: the rules of this repository that no other tool knows.

pub(crate) mod articles;
pub(crate) mod circles;
mod code;
mod compiled;
mod decisions;
mod defaults;
mod direction;
mod doc_words;
pub(crate) mod errors;
mod examples;
mod figures;
mod home_paths;
mod invariants;
mod links;
mod manifests;
mod markdown;
mod messages;
mod options;
mod public_types;
mod sources;
mod structure;
mod subjects;
mod terms;
mod translations;
mod tree;
mod words;

use std::fmt;

use crate::ui::{self, Outcome};
use tree::Tree;

/// Something that a rule does not allow, and what to do about it.
#[derive(Debug)]
pub(crate) struct Violation {
    /// Path from the root.
    pub(crate) file: String,
    /// Line in the file; `None` when it is about the whole.
    pub(crate) line: Option<usize>,
    what: String,
    next: String,
}

impl Violation {
    /// One about a whole file.
    pub(crate) fn of(file: &str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, what: what.into(), next: next.into() }
    }

    /// One about a line, the first being 1.
    fn at(file: &str, line: usize, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::of(file, what, next) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}\n    -> {}", self.what, self.next)
    }
}

/// The members of the workspace that are not published.
pub(crate) fn unpublished() -> Result<Vec<String>, String> {
    let members = tree::members()?.into_iter();
    Ok(members.filter(|member| !member.is_published).map(|member| member.name).collect())
}

type Rule = fn(&Tree) -> Vec<Violation>;

const RULES: &[Rule] = &[
    articles::check,
    direction::check,
    circles::check,
    manifests::check,
    manifests::docs_rs,
    sources::opening,
    sources::length,
    sources::words,
    home_paths::check,
    compiled::check,
    links::check,
    decisions::check,
    examples::check,
    defaults::check,
    doc_words::check,
    errors::check,
    invariants::check,
    messages::check,
    options::check,
    public_types::check,
    translations::check,
    subjects::check,
    terms::check,
    words::check,
];

/// Reads the tree, applies every rule and prints the outcome as one step.
pub(crate) fn step() -> bool {
    ui::step("tidy", || {
        let tree = match Tree::read() {
            Ok(tree) => tree,
            Err(message) => return Outcome::Bad(message),
        };
        let mut found: Vec<Violation> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
        found.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        if found.is_empty() {
            let (rules, files) = (RULES.len(), tree.files.len());
            let words = doc_words::count(&tree);
            let left_out = subjects::left_out().map(|note| format!("; {note}")).unwrap_or_default();
            let done = format!("{rules} rules, {files} files, {words} words in docs{left_out}");
            return Outcome::Good(done);
        }
        Outcome::Bad(found.iter().map(|violation| format!("{violation}\n")).collect())
    })
}
