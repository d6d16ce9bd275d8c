//! `docs/articles.tsv`: what well-known articles say, and what shows our answer.

mod known;
mod sections;

use std::fs;

use super::Violation;
use super::tree::Tree;
use crate::run::root;
use known::Known;

const SOURCE: &str = "docs/articles.tsv";
const COLUMNS: usize = 8;
const FORM: &str = "write `command leasehold ...`, `example PACKAGE NAME`, `test PACKAGE NAME`, `bench NAME` or \
                    `api crate::Item`, joined by ` + `";

/// A page with one table for each article.
struct Page {
    file: &'static str,
    folder: &'static str,
    head: &'static str,
    /// How a test is named, with NAME and PACKAGE.
    test: &'static str,
    /// Around a link behind an answer.
    link: [&'static str; 2],
    /// Columns of the point and of the answer.
    columns: (usize, usize),
}

const PAGES: [Page; 2] = [
    Page {
        file: "docs/articles.md",
        folder: "docs",
        head: "| what the article says | the answer here | shown by |",
        test: "test `NAME` of `PACKAGE`",
        link: [" (", ")"],
        columns: (1, 3),
    },
    Page {
        file: "docs/zh/articles.md",
        folder: "docs/zh",
        head: "| 文章的说法 | 这里的回答 | 如何验证 |",
        test: "`PACKAGE` 的测试 `NAME`",
        link: ["（见", "）"],
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
        match with_tables(tree, &known, page, now) {
            Ok(made) if made == now => {}
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
    let known = Known::of(&tree);
    for page in &PAGES {
        let now = tree.files.get(page.file).map_or("", String::as_str);
        let text = with_tables(&tree, &known, page, now)?;
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
fn faults(tree: &Tree, known: &Known<'_>, row: &[&str]) -> Vec<String> {
    let [.., shown, prints, page] = row else { return vec!["has too few columns".to_owned()] };
    if row.len() != COLUMNS || row[..COLUMNS - 2].iter().any(|cell| cell.is_empty()) {
        return vec![format!("needs {COLUMNS} columns; only the last two may be empty")];
    }
    let mut found = Vec::new();
    if !page.is_empty() {
        found.extend(sections::fault(tree, page));
    }
    let pieces: Vec<&str> = shown.split(" + ").collect();
    found.extend(pieces.iter().filter_map(|piece| known.fault(piece)));
    if pieces.iter().all(|piece| piece.starts_with("api ")) {
        found.push("names an item of the API, and nothing that shows it".to_owned());
    }
    let runs = |piece: &&&str| piece.starts_with("command ") || piece.starts_with("example ");
    let programs = pieces.iter().filter(runs).count();
    let phrases = prints.split(" + ").filter(|phrase| !phrase.is_empty()).count();
    if programs != phrases {
        found.push(format!("{phrases} texts in `prints` for {programs} commands and examples"));
    }
    found
}

/// Returns the page with its tables as the source has them.
fn with_tables(tree: &Tree, known: &Known<'_>, page: &Page, now: &str) -> Result<String, String> {
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
                table += &table_row(tree, known, page, &row);
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

fn table_row(tree: &Tree, known: &Known<'_>, page: &Page, row: &[&str]) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let shown = row[5].split(" + ").map(|piece| shown(known, page, &cell(piece)));
    let shown = shown.collect::<Vec<_>>().join("<br>");
    let (point, answer) = (cell(row[page.columns.0]), cell(row[page.columns.1]));
    let [open, close] = page.link;
    let link = match row[7] {
        "" => String::new(),
        to => format!("{open}{}{close}", sections::link(tree, page.folder, to)),
    };
    format!("| {point} | {answer}{link} | {shown} |\n")
}

/// Returns a piece of the column `shown` as the table has it: what to type, or the name of a test.
fn shown(known: &Known<'_>, page: &Page, piece: &str) -> String {
    let Some((kind, rest)) = piece.split_once(' ') else { return String::new() };
    match (kind, rest.split_once(' ')) {
        ("test", Some((package, name))) => {
            page.test.replace("PACKAGE", package).replace("NAME", name)
        }
        ("example", Some((package, name))) => {
            let features = known.features(package, name);
            let features = features.map_or(String::new(), |list| format!(" --features {list}"));
            format!("`cargo run -p {package}{features} --example {name}`")
        }
        ("bench", _) => format!("`cargo xtask bench {rest}`"),
        _ => format!("`{rest}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct Guard;\nimpl Guard {\n    pub async fn lost(&self) {}\n}\n\
                        pub enum OnLoss {\n    Notify,\n}\n#[cfg(test)]\nmod t {\n    pub fn hidden() {}\n}\n\
                        #[tokio::test]\nasync fn it_holds() {}\nfn helper() {}\n";
    const LIST: &str =
        "fn it_waits() {}\nfn alone() {}\ntest!(it_waits);\nexamples::run(P, \"e\", &[]);\n";
    const MANIFEST: &str =
        "[package]\n[[example]]\nname = \"e\"\nrequired-features = [\"a\", \"b\"]\n\n[[test]]\n";

    fn page() -> String {
        (1..=5).fold(String::from("# Page\n"), |text, article| {
            let (open, close) = markers(&article.to_string());
            format!("{text}{open}\n{close}\n")
        })
    }

    fn made(rows: &str) -> [String; 2] {
        let tree = tree(rows, "", "");
        let known = Known::of(&tree);
        [&PAGES[0], &PAGES[1]].map(|of| with_tables(&tree, &known, of, &page()).unwrap())
    }

    fn tree(rows: &str, english: &str, chinese: &str) -> Tree {
        Tree::of([
            (SOURCE, &format!("head\n{rows}")),
            ("docs/redis.md", "# The Redis store\n## Limits\n"),
            ("docs/articles.md", english),
            ("docs/zh/articles.md", chinese),
            ("crates/leasehold-core/Cargo.toml", MANIFEST),
            ("crates/leasehold-core/src/guard.rs", CODE),
            ("crates/leasehold-core/examples/e.rs", ""),
            ("crates/leasehold-core/examples/f/main.rs", ""),
            ("crates/leasehold-core/tests/list.rs", LIST),
            ("tools/leasehold-bench/src/args.rs", "pub enum Bench {\n    CacheHot(HotArgs),\n}\n"),
        ])
    }

    fn found(rows: &str) -> Vec<String> {
        let [english, chinese] = made(rows);
        let found = check(&tree(rows, &english, &chinese));
        found.iter().map(|violation| violation.what.clone()).collect()
    }

    #[test]
    fn what_exists_is_accepted() {
        let shown = "command leasehold lab x + test leasehold-core it_holds + test leasehold-core it_waits \
                     + example leasehold-core e + bench cache-hot + api leasehold::Guard::lost \
                     + api leasehold::OnLoss::Notify + api leasehold::Guard";
        assert_eq!(found(&format!("1\tp\t点\ta\t答\t{shown}\tx + y\tredis.md#limits\n")), [""; 0]);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        for piece in [
            "test leasehold-core helper",
            "test leasehold-core it_sleeps",
            "test leasehold-core alone",
            "test leasehold it_holds",
            "test it_holds",
            "bench cache",
            "api leasehold::Guard::found",
            "api leasehold::hidden",
            "api leasehold_cache::Guard",
            "command lab x",
            "word",
        ] {
            let shown = format!("bench cache-hot + {piece}");
            let prints = if piece.starts_with("command") { "x" } else { "" };
            let found = found(&format!("1\tp\t点\ta\t答\t{shown}\t{prints}\t\n"));
            assert_eq!(found, [format!("`{piece}` does not exist")]);
        }
        let example = |name| format!("1\tp\t点\ta\t答\texample leasehold-core {name}\tx\t\n");
        assert!(found(&example("g"))[0].contains("does not exist"));
        assert!(found(&example("f"))[0].contains("no test of leasehold-core runs"));
        assert!(found("1\tp\t点\ta\t答\tcommand leasehold x\tx\tno.md\n")[0].contains("no.md"));
        assert!(found("1\tp\t点\ta\t\tcommand leasehold x\tx\t\n")[0].contains("columns"));
    }

    #[test]
    fn a_row_needs_something_to_run_and_a_text_for_each_program() {
        let row = |shown, prints| found(&format!("1\tp\t点\ta\t答\t{shown}\t{prints}\t\n"));
        assert!(row("api leasehold::Guard", "")[0].contains("nothing that shows it"));
        assert!(row("command leasehold x", "")[0].contains("0 texts"));
        assert!(row("test leasehold-core it_holds", "x")[0].contains("1 texts"));
    }

    #[test]
    fn a_row_has_what_to_type_and_a_link_in_the_language_of_the_page() {
        let shown = "example leasehold-core e + test leasehold-core it_holds + bench cache-hot";
        let [english, chinese] = made(&format!("1\tp\t点\ta\t答\t{shown}\tx\tredis.md#limits\n"));
        let row = "| p | a ([The Redis store](redis.md#limits)) | \
                   `cargo run -p leasehold-core --features a,b --example e`<br>\
                   test `it_holds` of `leasehold-core`<br>`cargo xtask bench cache-hot` |";
        assert!(english.contains(row), "{english}");
        assert!(
            chinese.contains("| 点 | 答（见[The Redis store](../redis.md#limits)） |"),
            "{chinese}"
        );
    }

    #[test]
    fn a_page_that_differs_is_found() {
        let rows = "1\tp\t点\ta\t答\tcommand leasehold x\tx\tredis.md\n";
        let [english, chinese] = made(rows);
        assert!(check(&tree(rows, &english, &chinese)).is_empty());
        let other = check(&tree(rows, &english.replace("| a ", "| b "), &chinese));
        assert!(other[0].to_string().contains("cargo xtask articles"), "{other:?}");
        let lacks = check(&tree(rows, "# Page\n", &chinese));
        assert!(lacks[0].to_string().contains("lacks"), "{lacks:?}");
    }
}
