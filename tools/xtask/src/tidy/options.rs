//! Each option of a store URL is in the list for `url.finish`, on the pages of the defaults and on the Chinese page.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::code::{code, code_outside_tests, strings};
use super::tree::Tree;

/// Where the engines are.
const ENGINES: &str = "crates/engines/";

/// The pages with the defaults.
const PAGES: [&str; 2] = ["docs/defaults.md", "docs/zh/defaults.md"];

/// The Chinese pages where an engine's options may be: its own, and that of `redlock:`. A test of the facade reads
/// the English pages.
const CHINESE: [&str; 2] = ["docs/zh/NAME.md", "docs/zh/quorum.md"];

/// Options whose default is that they are not set: credentials, files, and names of places.
const NO_DEFAULT: [&str; 22] = [
    "also",
    "columns",
    "db",
    // With `also=flock`, that of the other programs.
    "directory",
    "key-prefix",
    // With `wire=rueidis`, which does not work without it.
    "majority",
    "password-file",
    "schema",
    "sentinel-password",
    "sentinel-password-file",
    "sentinel-user",
    "socket",
    "spring",
    // These two are `tls` and `tls-ca` in the words of libpq.
    "sslmode",
    "sslrootcert",
    "suffix",
    // With `wire=shedlock`, those of ShedLock.
    "table",
    "tls-ca",
    "tls-cert",
    "tls-key",
    "user",
    "wire",
];

/// Calls that take several options at once, and these options.
const TAKE_SEVERAL: [(&str, &[&str]); 2] = [
    ("take_login(", &["password-file", "user"]),
    ("take_tls(", &["tls-ca", "tls-cert", "tls-key"]),
];

/// An engine's options, each with the file and the line.
#[derive(Debug, Default)]
struct Options {
    taken: BTreeMap<String, (String, usize)>,
    listed: BTreeMap<String, (String, usize)>,
}

/// Checks the options of all engines.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (engine, options) in engines(tree) {
        let missing = options.taken.iter().filter(|(name, _)| !options.listed.contains_key(*name));
        for (name, (file, line)) in missing {
            let what = format!("no list of {engine} for `url.finish` has the option {name:?}");
            let next = "add it: a URL with an unknown option shows the list";
            found.push(Violation::at(file, *line, what, next));
        }
        let pages =
            CHINESE.map(|page| page.replace("NAME", engine.trim_start_matches("leasehold-")));
        let chinese: String =
            pages.iter().filter_map(|page| tree.files.get(page)).cloned().collect();
        for (name, (file, line)) in &options.listed {
            if ![format!("`{name}`"), format!("`{name}=")].iter().any(|it| chinese.contains(it)) {
                let what = format!("{} does not have the option {name:?}", pages[0]);
                found.push(Violation::at(file, *line, what, "add it to the table of options"));
            }
            let quoted = format!("`{name}`");
            for page in PAGES {
                let text = tree.files.get(page).map_or("", String::as_str);
                if !NO_DEFAULT.contains(&name.as_str()) && !text.contains(&quoted) {
                    let what = format!("{page} has no default for the option {name:?}");
                    let next = "add a row; or, if it has none, NO_DEFAULT in tools/xtask/src/tidy/options.rs";
                    found.push(Violation::at(file, *line, what, next));
                }
            }
        }
    }
    found
}

fn engines(tree: &Tree) -> BTreeMap<&str, Options> {
    let mut engines = BTreeMap::<&str, Options>::new();
    for (path, source) in tree.rust() {
        let Some((engine, file)) =
            path.strip_prefix(ENGINES).and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        if !file.ends_with("_tests.rs") {
            read(path, source, engines.entry(engine).or_default());
        }
    }
    for options in engines.values_mut() {
        // Other lists of words have no option in them.
        let known = options.listed.iter().filter(|(name, _)| options.taken.contains_key(*name));
        let lists: BTreeSet<_> = known.map(|(_, place)| place.clone()).collect();
        options.listed.retain(|_, place| lists.contains(place));
    }
    engines
}

/// Adds what a source takes, and what its lists have; the place of a listed option is that of its list.
fn read(path: &str, source: &str, options: &mut Options) {
    let (code, outside) = (code(source), code_outside_tests(source));
    let line = |at: usize| source[..at].matches('\n').count() + 1;
    for (start, end) in strings(source) {
        let name = source[start + 1..end - 1].to_owned();
        let before = outside[..start].trim_end();
        if before.len() != code[..start].trim_end().len() {
            continue;
        }
        let is_taken = ["take(", "take_duration("].iter().any(|call| before.ends_with(call));
        if is_taken {
            options.taken.entry(name).or_insert((path.to_owned(), line(start)));
        } else if let Some(list) = list_around(&outside[..start]) {
            options.listed.entry(name).or_insert((path.to_owned(), line(list)));
        }
    }
    for (call, names) in TAKE_SEVERAL {
        if let Some(at) = outside.find(call) {
            for name in names {
                options.taken.entry((*name).to_owned()).or_insert((path.to_owned(), line(at)));
            }
        }
    }
}

/// Returns where the constant begins whose list of words is open at the end of this code.
fn list_around(before: &str) -> Option<usize> {
    let start = before.rfind("const ")?;
    let (kind, words) = before[start..].split_once('=')?;
    let is_list = kind.contains("[&str") && words.trim_start().starts_with(['&', '[']);
    (is_list && !words.contains(']') && !words.contains(';')).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! A.\nconst OPTIONS: &[&str] =\n    &[\"user\", \"pool\"];\nconst OTHER: [&str; 1] = [\"word\"];\n\
        fn f(url: Url) {\n    url.take(\"pool\");\n    url.take_duration(\"user\", X);\n    url.finish(OPTIONS);\n}\n\
        #[cfg(test)]\nmod tests { fn g() { url.take(\"test\"); } }\n";
    const PATH: &str = "crates/engines/leasehold-a/src/address.rs";
    const PAGE: &str = "| `pool` | 8 |\n";

    fn found(source: &str, pages: [&str; 2]) -> Vec<String> {
        let chinese = ("docs/zh/a.md", "| `pool=8` | `user` |");
        let defaults = [(PAGES[0], pages[0]), (PAGES[1], pages[1])];
        let tree = Tree::of([(PATH, source), defaults[0], defaults[1], chinese]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_option_that_the_list_lacks_is_found() {
        assert!(found(SOURCE, [PAGE; 2]).is_empty(), "{:?}", found(SOURCE, [PAGE; 2]));
        let missing = found(&SOURCE.replace(", \"pool\"", ""), [PAGE; 2]);
        assert!(missing.len() == 1 && missing[0].starts_with(&format!("{PATH}:6")), "{missing:?}");
        let login = SOURCE.replace("url.finish", "url.take_tls(); url.finish");
        assert_eq!(found(&login, [PAGE; 2]).len(), 3);
    }

    #[test]
    fn an_option_that_the_chinese_page_lacks_is_found() {
        let source = SOURCE.replace("\"user\"", "\"socket\"");
        let missing = found(&source, [PAGE; 2]);
        assert!(missing.len() == 1 && missing[0].contains("docs/zh/a.md"), "{missing:?}");
    }

    #[test]
    fn a_default_that_a_page_lacks_is_found() {
        let missing = found(SOURCE, [PAGE, ""]);
        assert!(missing.len() == 1 && missing[0].contains(PAGES[1]), "{missing:?}");
    }
}
