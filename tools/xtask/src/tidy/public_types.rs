//! No public signature shows a type of tokio or tokio-util that no crate of Leasehold exports: a
//! program would need tokio in the same version.

use super::Violation;
use super::code::code_outside_tests;
use super::structure::declared;
use super::tree::Tree;

/// What the crates export under their own names.
const EXPORTED: &[&str] = &["CancellationToken"];
/// What is declared `pub`, up to where its signature ends. The lint `unreachable_pub` makes sure that
/// nothing else is `pub`.
const ITEMS: &[&str] = &[
    "pub fn ",
    "pub async fn ",
    "pub const fn ",
    "pub type ",
    "pub struct ",
    "pub enum ",
    "pub trait ",
];

/// Checks the crates that programs depend on.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let published = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    let sources = tree.rust().filter(|(path, _)| published(path) && !path.ends_with("tests.rs"));
    let mut found = Vec::new();
    for (path, text) in sources {
        let code = code_outside_tests(text);
        let mut names = vec!["tokio".to_owned(), "tokio_util".to_owned()];
        for (import, name) in declared(&code) {
            let of_tokio =
                import.first().is_some_and(|root| root == "tokio" || root == "tokio_util");
            if of_tokio && !EXPORTED.contains(&name.as_str()) {
                names.push(name);
            }
        }
        for (line, signature) in signatures(&code) {
            if let Some(name) = names.iter().find(|name| has_word(signature, name)) {
                let what = format!("a public signature shows `{name}` of tokio");
                let next = "use a type of our own, or export it and add it to \
                            tools/xtask/src/tidy/public_types.rs";
                found.push(Violation::at(path, line, what, next));
            }
        }
    }
    found
}

/// Returns the public signatures with their lines: a function up to its body, a type with its public
/// fields, all of a trait or an enum.
fn signatures(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for item in ITEMS {
        for (start, _) in code.match_indices(item) {
            let rest = &code[start..];
            let open = rest.find(['{', ';']).unwrap_or(rest.len());
            let line = code[..start].matches('\n').count() + 1;
            let signature = &rest[..open];
            match signature.split_once('(').filter(|_| item.contains("struct")) {
                Some((head, fields)) => {
                    let public = fields.split(',').filter(|field| field.trim().starts_with("pub "));
                    found.extend(public.chain([head]).map(|part| (line, part)));
                }
                None => found.push((line, signature)),
            }
            if item.contains("fn ") || !rest[open..].starts_with('{') {
                continue;
            }
            let body = &rest[open + 1..];
            let body = &body[..closing_brace(body)];
            for (index, text) in body.lines().enumerate() {
                let public = !item.contains("struct") || text.trim_start().starts_with("pub ");
                if public {
                    found.push((line + index, text));
                }
            }
        }
    }
    found
}

fn closing_brace(body: &str) -> usize {
    let mut depth = 1;
    let end = body.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    });
    end.unwrap_or(body.len())
}

fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(inside) && !text[at + word.len()..].starts_with(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_tokio_is_found_in_each_kind_of_public_signature() {
        let lines = |source: &str| {
            let tree = Tree::of([("crates/a/src/b.rs", source)]);
            check(&tree).iter().filter_map(|found| found.line).collect::<Vec<_>>()
        };
        assert_eq!(lines("use tokio::sync::Notify;\npub fn f(n: &Notify) {}\n"), [2]);
        assert_eq!(lines("pub fn f() -> tokio::task::JoinHandle<()> {}\n"), [1]);
        assert_eq!(lines("pub struct S(u8, pub tokio::sync::Notify);\n"), [1]);
        assert_eq!(lines("pub struct S(tokio::sync::Notify, pub u8);\n"), [0usize; 0]);
        assert_eq!(
            lines("use tokio::sync::mpsc;\npub struct S {\n    a: mpsc::Sender<u8>,\n}\n"),
            [0usize; 0]
        );
        assert_eq!(
            lines("use tokio::sync::mpsc;\npub struct S {\n    pub a: mpsc::Sender<u8>,\n}\n"),
            [3]
        );
        assert_eq!(
            lines("use tokio::sync::mpsc;\npub enum E {\n    A(mpsc::Sender<u8>),\n}\n"),
            [3]
        );
        assert_eq!(
            lines("use tokio::sync::Notify;\npub(crate) fn f(n: &Notify) { Notify::new() }\n"),
            [0usize; 0]
        );
        assert_eq!(lines("use tokio::sync::Notify;\npub fn f() { Notify::new() }\n"), [0usize; 0]);
        assert_eq!(
            lines("use tokio_util::sync::CancellationToken as C;\npub fn f() -> C {}\n"),
            [2]
        );
        assert_eq!(
            lines("use tokio_util::sync::CancellationToken;\npub fn f() -> CancellationToken {}\n"),
            [0usize; 0]
        );
    }
}
