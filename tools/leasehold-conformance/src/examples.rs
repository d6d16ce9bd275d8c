//! Runs the examples of the packages, and compares what they print with `docs/articles.tsv`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pages::docs;

/// Returns a command that runs the example as `cargo run --example` does. `cargo test` has built it, unless it was
/// asked for single targets.
///
/// # Panics
/// If the example is not built, or is older than its source.
pub fn command(package: &str, name: &str) -> Command {
    let program = program(name);
    let build = format!("run cargo build -p {package} --all-features --examples");
    let built = modified(&program)
        .unwrap_or_else(|error| panic!("{}: {error}; {build}", program.display()));
    for source in sources(package, name) {
        let changed =
            modified(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        assert!(changed <= built, "{} is older than its source; {build}", program.display());
    }
    Command::new(program)
}

/// Runs an example to its end, and returns what it prints. Each row of `docs/articles.tsv` that names the example must
/// be answered by it.
///
/// # Panics
/// If the example fails, or does not print what a row promises.
pub fn run(package: &str, name: &str, arguments: &[&str]) -> String {
    let output = command(package, name).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output.status.success(), "{name}: {output:?}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    answers(package, name, &printed);
    printed
}

/// Checks that the output has the phrase of each row of `docs/articles.tsv` that names this example.
///
/// # Panics
/// If a phrase is missing.
pub fn answers(package: &str, name: &str, printed: &str) {
    let source = docs().join("articles.tsv");
    let text = fs::read_to_string(&source).unwrap_or_else(|error| panic!("{source:?}: {error}"));
    for (shown, phrase) in phrases(&text) {
        if shown.strip_prefix("example ") == Some(&format!("{package} {name}")) {
            assert!(printed.contains(phrase), "{name} does not print `{phrase}`:\n{printed}");
        }
    }
}

/// Returns each command and example that a row of `docs/articles.tsv` names, with what its output has.
pub fn phrases(source: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for line in source.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let (Some(shown), Some(prints)) = (cells.get(5), cells.get(6)) else { continue };
        let runs = |piece: &&str| piece.starts_with("command ") || piece.starts_with("example ");
        found.extend(shown.split(" + ").filter(runs).zip(prints.split(" + ")));
    }
    found
}

/// The program beside the one of the test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let target = test.ancestors().nth(2).unwrap_or(Path::new("."));
    target.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION)
}

/// The files of the example.
fn sources(package: &str, name: &str) -> Vec<PathBuf> {
    let crates = docs().join("../crates");
    let folders = [crates.join("engines").join(package), crates.join(package)];
    let folder = folders.iter().find(|folder| folder.is_dir()).unwrap_or(&crates);
    let examples = folder.join("examples");
    match fs::read_dir(examples.join(name)) {
        Ok(files) => files.flatten().map(|file| file.path()).collect(),
        Err(_) => vec![examples.join(format!("{name}.rs"))],
    }
}

fn modified(file: &Path) -> std::io::Result<std::time::SystemTime> {
    fs::metadata(file)?.modified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_and_example_has_its_phrase() {
        let row =
            "1\tp\t点\ta\t答\tcommand leasehold x + test c t + example c e\tone + two\tpage.md\n";
        assert_eq!(
            phrases(&format!("head\n{row}")),
            [("command leasehold x", "one"), ("example c e", "two")]
        );
    }

    #[test]
    #[should_panic(expected = "does not print")]
    fn output_without_the_phrase_of_a_row_is_refused() {
        answers("leasehold-filters", "bitmap_sort", "nothing");
    }
}
