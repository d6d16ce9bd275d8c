//! `docs/articles.tsv`: what well-known articles say, and what shows our answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::Violation;
use super::code::{code, code_outside_tests};
use super::tree::Tree;
use crate::run::root;

const SOURCE: &str = "docs/articles.tsv";
const COLUMNS: usize = 7;
const FORM: &str =
    "write `command leasehold ...`, `test NAME` or `api crate::Item`, joined by ` + `";

/// A page with one table for each article.
struct Page {
    file: &'static str,
    head: &'static str,
    test: &'static str,
    /// Columns of the point and of the answer.
    columns: (usize, usize),
}

const PAGES: [Page; 2] = [
    Page {
        file: "docs/articles.md",
        head: "| what the article says | the answer here | shown by |",
        test: "test",
        columns: (1, 3),
    },
    Page {
        file: "docs/zh/articles.md",
        head: "| 文章的说法 | 这里的回答 | 如何验证 |",
        test: "测试",
        columns: (2, 4),
    },
];

/// Compares the tables of the pages with the source, and checks what each row names.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.files.get(SOURCE) else { return Vec::new() };
    let mut found = Vec::new();
    let known = Known::of(tree);
    for (line, row) in rows(text) {
        found.extend(
            faults(tree, &known, &row)
                .into_iter()
                .map(|what| Violation::at(SOURCE, line, what, FORM)),
        );
    }
    for page in &PAGES {
        let now = tree.files.get(page.file).map_or("", String::as_str);
        match with_tables(tree, page, now) {
            // Links lead to a page in the reader's language as soon as there is one.
            Ok(made) if without_targets(&made) == without_targets(now) => {}
            Ok(_) => {
                let what = format!("differs from {SOURCE}");
                found.push(Violation::of(page.file, what, "cargo xtask articles"));
            }
            Err(what) => found.push(Violation::of(page.file, what, "restore the two markers")),
        }
    }
    found
}

/// Writes the tables of both pages.
pub(crate) fn write() -> Result<(), String> {
    let tree = Tree::read()?;
    for page in &PAGES {
        let now = tree.files.get(page.file).map_or("", String::as_str);
        let text = with_tables(&tree, page, now)?;
        fs::write(root().join(page.file), text)
            .map_err(|error| format!("cannot write {}: {error}", page.file))?;
    }
    Ok(())
}

/// Returns the rows below the head, with their line numbers.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().skip(1).map(|(index, line)| (index + 1, line.split('\t').collect()))
}

/// Returns what is wrong with a row.
fn faults(tree: &Tree, known: &Known, row: &[&str]) -> Vec<String> {
    let [.., shown, page] = row else { return vec!["has too few columns".to_owned()] };
    if row.len() != COLUMNS || row[..COLUMNS - 1].iter().any(|cell| cell.is_empty()) {
        return vec![format!("needs {COLUMNS} columns; only the last may be empty")];
    }
    let mut found = Vec::new();
    if !page.is_empty() && !tree.has(&format!("docs/{page}")) {
        found.push(format!("names the page `{page}`, which does not exist"));
    }
    for piece in shown.split(" + ") {
        let is_known = match piece.split_once(' ') {
            Some(("command", command)) => command.starts_with("leasehold "),
            Some(("test", name)) => known.tests.contains(name),
            Some(("api", path)) => known.has_item(path),
            _ => false,
        };
        if !is_known {
            found.push(format!("`{piece}` does not exist"));
        }
    }
    found
}

/// What the rows may name.
struct Known {
    tests: BTreeSet<String>,
    /// Crate and code of each source that is not a test.
    sources: Vec<(String, String)>,
}

impl Known {
    fn of(tree: &Tree) -> Self {
        let source = |(path, text): (&str, &str)| {
            let path = path.strip_prefix("crates/")?;
            let path = path.strip_prefix("engines/").unwrap_or(path);
            let (name, _) = path.split_once("/src/")?;
            Some((name.replace('-', "_"), code_outside_tests(text)))
        };
        Self { tests: tests(tree), sources: tree.rust().filter_map(source).collect() }
    }

    /// Returns true if a source of the crate defines the item, beside the type that the path names.
    fn has_item(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split("::").collect();
        let [name, between @ .., item] = &*parts else { return false };
        let of_type = between.last().filter(|part| part.starts_with(char::is_uppercase));
        self.sources.iter().any(|(crate_name, code)| {
            // The facade passes on items of the crates below it.
            let facade = ["leasehold_core", "leasehold_proto", "leasehold_sql"];
            let here = crate_name == name
                || (*name == "leasehold" && facade.contains(&crate_name.as_str()));
            here && of_type.is_none_or(|of| words(code).any(|word| word == *of))
                && code.lines().any(|line| defines(line, item, of_type.is_some()))
        })
    }
}

/// Returns true if a line defines a public item of this name, or a member of a type.
fn defines(line: &str, item: &str, of_type: bool) -> bool {
    let line = line.trim_start();
    let mut words = words(line);
    if line.starts_with("pub ") {
        const KINDS: [&str; 8] =
            ["fn", "struct", "enum", "trait", "mod", "type", "const", "static"];
        return words.any(|word| KINDS.contains(&word)) && words.next() == Some(item)
            || line.contains(&format!("const fn {item}("));
    }
    // A variant of an enum, or a setting of a builder that a macro makes.
    let behind = line.strip_prefix(item).and_then(|rest| rest.chars().next());
    of_type && line.starts_with(item) && matches!(behind, None | Some(',' | '(' | ':' | ' '))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the names of the tests: functions with an attribute, and functions that a test program
/// lists.
fn tests(tree: &Tree) -> BTreeSet<String> {
    let (mut found, mut functions) = (BTreeSet::new(), BTreeSet::new());
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in tree.rust() {
        let code = code(text);
        let may_list = path.contains("/tests/") || path.contains("/cases/");
        let mut is_test = false;
        for line in code.lines().map(str::trim_start) {
            if line.starts_with("#[") {
                is_test |= line.contains("test]") || line.contains("test(");
            } else if !line.is_empty() {
                if let Some(name) = line.split_once("fn ").and_then(|(_, rest)| words(rest).next())
                {
                    let names = if is_test { &mut found } else { &mut functions };
                    names.extend((is_test || may_list).then(|| name.to_owned()));
                }
                is_test = false;
            }
        }
        if may_list {
            words(&code).for_each(|word| *uses.entry(word.to_owned()).or_default() += 1);
        }
    }
    found.extend(functions.into_iter().filter(|name| uses.get(name).is_some_and(|uses| *uses > 1)));
    found
}

/// Returns the page with its tables as the source has them.
fn with_tables(tree: &Tree, page: &Page, now: &str) -> Result<String, String> {
    let source = tree.files.get(SOURCE).map_or("", String::as_str);
    let mut text = now.to_owned();
    for article in ["1", "2", "3", "4", "5"] {
        let (open, close) = markers(article);
        let pieces = text.split_once(&open).and_then(|(before, rest)| {
            rest.split_once(&close).map(|(_, after)| (before.to_owned(), after.to_owned()))
        });
        let (before, after) = pieces.ok_or_else(|| format!("lacks `{open}` or `{close}`"))?;
        let mut table = format!("{}\n|---|---|---|\n", page.head);
        for (_, row) in rows(source).filter(|(_, row)| row.first() == Some(&article)) {
            if row.len() == COLUMNS {
                table += &table_row(tree, page, &row);
            }
        }
        text = format!("{before}{open}\n\n{table}\n{close}{after}");
    }
    Ok(text)
}

fn markers(article: &str) -> (String, String) {
    let open = format!("<!-- article {article}: generated by `cargo xtask articles` -->");
    (open, format!("<!-- end of article {article} -->"))
}

fn table_row(tree: &Tree, page: &Page, row: &[&str]) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let shown = row[5].split(" + ").map(|piece| match piece.split_once(' ') {
        Some(("test", name)) => format!("{} `{name}`", page.test),
        Some((_, name)) => format!("`{}`", cell(name)),
        None => String::new(),
    });
    let shown = shown.collect::<Vec<_>>().join("<br>");
    let (point, answer) = (cell(row[page.columns.0]), cell(row[page.columns.1]));
    let link = match row[6] {
        "" => String::new(),
        to => format!(" ([{}]({}))", to.trim_end_matches(".md"), target(tree, page, to)),
    };
    format!("| {point} | {answer}{link} | {shown} |\n")
}

/// Returns the way from the page to a page of docs, in the same language if there is one.
fn target(tree: &Tree, page: &Page, to: &str) -> String {
    let here = page.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    if tree.has(&format!("{here}/{to}")) { to.to_owned() } else { format!("../{to}") }
}

/// Returns a text with the targets of its links left out.
fn without_targets(text: &str) -> String {
    let mut pieces = text.split("](");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out += piece.split_once(')').map_or(piece, |(_, rest)| rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct Guard;\nimpl Guard {\n    pub async fn lost(&self) {}\n}\n\
                        pub enum OnLoss {\n    Notify,\n}\n#[cfg(test)]\nmod t {\n    pub fn hidden() {}\n}\n\
                        #[tokio::test]\nasync fn it_holds() {}\nfn helper() {}\n";
    const LIST: &str = "fn it_waits() {}\nfn alone() {}\ntest!(it_waits);\n";

    fn page() -> String {
        (1..=5).fold(String::from("# Page\n"), |text, article| {
            let (open, close) = markers(&article.to_string());
            format!("{text}{open}\n{close}\n")
        })
    }

    fn made(rows: &str) -> [String; 2] {
        let tree = tree(rows, "", "");
        [&PAGES[0], &PAGES[1]].map(|of| with_tables(&tree, of, &page()).unwrap())
    }

    fn tree(rows: &str, english: &str, chinese: &str) -> Tree {
        Tree::of([
            (SOURCE, &format!("head\n{rows}")),
            ("docs/redis.md", ""),
            ("docs/articles.md", english),
            ("docs/zh/articles.md", chinese),
            ("crates/leasehold-core/src/guard.rs", CODE),
            ("crates/leasehold-core/tests/list.rs", LIST),
        ])
    }

    fn found(rows: &str) -> Vec<String> {
        let [english, chinese] = made(rows);
        let found = check(&tree(rows, &english, &chinese));
        found.iter().map(|violation| violation.what.clone()).collect()
    }

    #[test]
    fn what_exists_is_accepted() {
        let shown = "command leasehold lab x + test it_holds + test it_waits + api leasehold::Guard::lost \
                     + api leasehold::OnLoss::Notify + api leasehold::Guard";
        assert_eq!(found(&format!("1\tp\t点\ta\t答\t{shown}\tredis.md\n")), [""; 0]);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        for piece in [
            "test helper",
            "test it_sleeps",
            "test alone",
            "api leasehold::Guard::found",
            "api leasehold::hidden",
            "api leasehold_cache::Guard",
            "command lab x",
            "word",
        ] {
            let found = found(&format!("1\tp\t点\ta\t答\t{piece}\t\n"));
            assert_eq!(found, [format!("`{piece}` does not exist")]);
        }
        assert!(found("1\tp\t点\ta\t答\tcommand leasehold x\tno.md\n")[0].contains("no.md"));
        assert!(found("1\tp\t点\ta\t\tcommand leasehold x\t\n")[0].contains("columns"));
    }

    #[test]
    fn a_page_that_differs_is_found_and_another_link_target_is_no_difference() {
        let rows = "1\tp\t点\ta\t答\tcommand leasehold x\tredis.md\n";
        let [english, chinese] = made(rows);
        assert!(
            chinese.contains("| 点 | 答 ([redis](../redis.md)) | `leasehold x` |"),
            "{chinese}"
        );
        let moved = english.replace("](redis.md)", "](../x.md)");
        assert!(check(&tree(rows, &moved, &chinese)).is_empty());
        let other = check(&tree(rows, &english.replace("| a ", "| b "), &chinese));
        assert!(other[0].to_string().contains("cargo xtask articles"), "{other:?}");
        let lacks = check(&tree(rows, "# Page\n", &chinese));
        assert!(lacks[0].to_string().contains("lacks"), "{lacks:?}");
    }
}
