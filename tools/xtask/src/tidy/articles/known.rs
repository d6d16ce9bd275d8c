//! What the rows of `docs/articles.tsv` may name: tests, examples, benchmarks, items of the API.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::code::{code, code_outside_tests};
use crate::tidy::tree::Tree;

/// Where the benchmarks are named.
const BENCHMARKS: &str = "tools/leasehold-bench/src/args.rs";
/// Where the packages are.
const FOLDERS: [&str; 3] = ["crates/engines/", "crates/", "tools/"];

pub(super) struct Known<'a> {
    tree: &'a Tree,
    /// Package and name of each test.
    tests: BTreeSet<(&'a str, String)>,
    /// Package and code of each source that is not a test.
    sources: Vec<(String, String)>,
}

impl<'a> Known<'a> {
    pub(super) fn of(tree: &'a Tree) -> Self {
        let source = |(path, text): (&str, &str)| {
            let inside = path.split_once("/src/").is_some_and(|(before, _)| {
                before.starts_with("crates/") && before.ends_with(package(path))
            });
            inside.then(|| (package(path).replace('-', "_"), code_outside_tests(text)))
        };
        Self { tree, tests: tests(tree), sources: tree.rust().filter_map(source).collect() }
    }

    /// Returns what is wrong with a piece of the column `shown`.
    pub(super) fn fault(&self, piece: &str) -> Option<String> {
        let words: Vec<&str> = piece.split(' ').collect();
        let exists = match *words {
            ["command", "leasehold", ..] => true,
            ["test", package, name] => self.tests.contains(&(package, name.to_owned())),
            ["example", package, name] => {
                let folder = self.folder(package).filter(|folder| self.has_example(folder, name));
                if folder.as_ref().is_some_and(|folder| !self.is_run(folder, name)) {
                    return Some(format!("no test of {package} runs the example `{name}`"));
                }
                folder.is_some()
            }
            ["bench", name] => self.has_benchmark(name),
            ["api", path] => self.has_item(path),
            _ => false,
        };
        (!exists).then(|| format!("`{piece}` does not exist"))
    }

    /// Returns the features that the example needs.
    pub(super) fn features(&self, package: &str, example: &str) -> Option<String> {
        let manifest = self.tree.files.get(&format!("{}/Cargo.toml", self.folder(package)?))?;
        let name = format!("name = \"{example}\"");
        let mut sections = manifest.split("[[example]]").skip(1);
        let section = sections.find(|section| section.lines().any(|line| line == name))?;
        let section = section.split("\n[").next()?;
        let list = section.lines().find_map(|line| line.strip_prefix("required-features = ["))?;
        Some(list.trim_end_matches(']').replace(['"', ' '], ""))
    }

    fn folder(&self, package: &str) -> Option<String> {
        let mut folders = FOLDERS.iter().map(|folder| format!("{folder}{package}"));
        folders.find(|folder| self.tree.files.contains_key(&format!("{folder}/Cargo.toml")))
    }

    fn has_example(&self, folder: &str, name: &str) -> bool {
        [".rs", "/main.rs"]
            .iter()
            .any(|end| self.tree.files.contains_key(&format!("{folder}/examples/{name}{end}")))
    }

    /// Returns true if a test looks at what the example prints.
    fn is_run(&self, folder: &str, name: &str) -> bool {
        let (folder, name) = (format!("{folder}/tests/"), format!("\"{name}\""));
        let mut tests = self.tree.rust().filter(|(path, _)| path.starts_with(&folder));
        tests.any(|(_, text)| text.contains("examples::") && text.contains(&name))
    }

    fn has_benchmark(&self, name: &str) -> bool {
        let variant: String = name
            .split('-')
            .flat_map(|word| {
                let (first, rest) = word.split_at(word.len().min(1));
                [first.to_uppercase(), rest.to_owned()]
            })
            .collect();
        let args = self.tree.files.get(BENCHMARKS).map_or("", String::as_str);
        args.lines().map(str::trim_start).any(|line| {
            line.strip_prefix(&variant)
                .is_some_and(|rest| rest.trim_start().starts_with(['(', '{']))
        })
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

/// Returns the package of a file, by the folder in which it is.
fn package(path: &str) -> &str {
    let inside = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder));
    inside.and_then(|inside| inside.split('/').next()).unwrap_or_default()
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

/// Returns the tests: functions with an attribute, and functions that a test program lists.
fn tests(tree: &Tree) -> BTreeSet<(&str, String)> {
    let (mut found, mut functions) = (BTreeSet::new(), BTreeSet::new());
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in tree.rust() {
        let (package, code) = (package(path), code(text));
        let may_list = path.contains("/tests/") || path.contains("/cases/");
        let mut is_test = false;
        for line in code.lines().map(str::trim_start) {
            if line.starts_with("#[") {
                is_test |= line.contains("test]") || line.contains("test(");
            } else if !line.is_empty() {
                if let Some(name) = line.split_once("fn ").and_then(|(_, rest)| words(rest).next())
                {
                    let names = if is_test { &mut found } else { &mut functions };
                    names.extend((is_test || may_list).then(|| (package, name.to_owned())));
                }
                is_test = false;
            }
        }
        if may_list {
            words(&code).for_each(|word| *uses.entry(word.to_owned()).or_default() += 1);
        }
    }
    let listed = |(_, name): &(&str, String)| uses.get(name).is_some_and(|uses| *uses > 1);
    found.extend(functions.into_iter().filter(listed));
    found
}
