//! One file reads a clock; all others are given the time.

use super::Violation;
use super::code::{code_outside_tests, lines_with};
use super::tree::Tree;

const READER: &str = "crates/leasehold-core/src/clock.rs";
const READINGS: [&str; 4] = ["Instant::now", "SystemTime::now", "CLOCK_BOOTTIME", "clock_gettime"];

/// Folders whose programs measure time and are no part of the toolkit.
const MAY: [&str; 3] = ["tools/xtask/", "tools/leasehold-bench/", "tools/leasehold-conformance/"];

/// Checks every source that is not a test.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.rust() {
        if path == READER || MAY.iter().any(|folder| path.starts_with(folder)) || is_test(path) {
            continue;
        }
        let code = code_outside_tests(text);
        for reading in READINGS {
            found.extend(lines_with(&code, reading).map(|line| {
                let next =
                    format!("take a `Clock`, or the time, as an argument: {READER} reads it");
                Violation::at(path, line, format!("reads a clock (`{reading}`)"), next)
            }));
        }
    }
    found
}

/// By name: `tests.rs`, `..._tests.rs`, or anything in a folder `tests` or `benches`.
fn is_test(path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    file == "tests.rs"
        || file.ends_with("_tests.rs")
        || folders.split('/').any(|folder| folder == "tests" || folder == "benches")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_reader_is_found_and_a_test_is_not() {
        let source = "let now = std::time::Instant::now();";
        let inside = "#[cfg(test)]\nmod tests { fn f() { SystemTime::now(); } }";
        let tree = Tree::of([
            (READER, source),
            ("crates/engines/leasehold-redis/src/wait.rs", source),
            ("crates/engines/leasehold-redis/src/own_tests.rs", inside),
            ("crates/leasehold-cli/tests/run.rs", source),
            ("crates/leasehold-core/src/lease_tests.rs", source),
            ("tools/leasehold-bench/src/main.rs", source),
            ("tools/xtask/src/ui.rs", source),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].file, "crates/engines/leasehold-redis/src/wait.rs");
    }
}
