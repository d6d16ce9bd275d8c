//! Each Chinese page shows the code and the figures of its English one, and the other way round.

use std::collections::BTreeSet;

use super::Violation;
use super::figures::{Found, figures};
use super::markdown::{Block, spans, split};
use super::tree::Tree;

const READMES: [&str; 2] = ["README.md", "README.zh-CN.md"];
const CHINESE: &str = "docs/zh/";
/// These have lists of their own.
const LISTS: [&str; 2] = ["docs/zh/README.md", "docs/zh/SUMMARY.md"];

/// Compares the pages of each pair.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in READMES.iter().filter(|file| !tree.files.contains_key(**file)) {
        found.push(Violation::of(file, "is missing", "write it, with the code of the other"));
    }
    let chinese = tree.files.keys().filter(|file| {
        file.starts_with(CHINESE) && file.ends_with(".md") && !LISTS.contains(&file.as_str())
    });
    let pairs = chinese.map(|file| (format!("docs/{}", &file[CHINESE.len()..]), file.as_str()));
    for (english, chinese) in pairs.chain([(READMES[0].to_owned(), READMES[1])]) {
        let Some(translated) = tree.files.get(chinese) else { continue };
        match tree.files.get(&english) {
            Some(original) => {
                found.extend(links((&english, original), (chinese, translated)));
                found.extend(compare((&english, original), (chinese, translated)));
            }
            None => {
                let what = format!("has no English page {english}");
                found.push(Violation::of(chinese, what, "name both pages alike"));
            }
        }
    }
    found
}

/// Pages in `docs` that do not link to the same page in the other language.
fn links(english: (&str, &str), chinese: (&str, &str)) -> Vec<Violation> {
    let Some(name) = chinese.0.strip_prefix(CHINESE) else { return Vec::new() };
    let mut found = Vec::new();
    for ((file, text), link) in
        [(english, format!("[中文](zh/{name})")), (chinese, format!("[English](../{name})"))]
    {
        if !text.contains(&link) {
            let what = "no link to the page in the other language";
            found.push(Violation::of(file, what, format!("add {link} below the title")));
        }
    }
    found
}

/// The blocks of code and the figures that only one of the pages has.
fn compare(english: (&str, &str), chinese: (&str, &str)) -> Vec<Violation> {
    let (original, translated) = (split(english.1), split(chinese.1));
    let mut found = alone(english.0, &original.1, chinese.0, &translated.1);
    found.extend(alone(chinese.0, &translated.1, english.0, &original.1));
    let known: BTreeSet<String> = original.0.iter().flat_map(|(_, line)| numbers(line)).collect();
    for (line, text) in translated.0.iter().filter(|(_, text)| text.starts_with('|')) {
        for figure in numbers(text).filter(|figure| !known.contains(figure)) {
            let what = format!("the table has {figure}, which {} does not have", english.0);
            found.push(Violation::at(chinese.0, *line, what, EQUAL));
        }
    }
    let (here, there) = (prose(&original.0), prose(&translated.0));
    found.extend(lacking(english.0, &here, chinese.0, &there));
    found.extend(lacking(chinese.0, &there, english.0, &here));
    found
}

const EQUAL: &str = "make the figures of both pages equal";

/// The figures of the lines outside code, links' targets and comments.
fn prose(lines: &[(usize, &str)]) -> Found {
    let text: Vec<String> = lines
        .iter()
        .filter(|(_, line)| !line.starts_with("<!--"))
        .map(|(_, line)| without_targets(&spans(line).0))
        .collect();
    // A number and its unit may stand on two lines.
    figures(&text.join(" "))
}

/// The line without the targets of its links.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or("", |(_, behind)| behind));
    }
    text
}

/// The figures that the other page lacks.
fn lacking(file: &str, one: &Found, other: &str, others: &Found) -> Vec<Violation> {
    let figure = |(number, unit): &(String, &str)| {
        let what = format!(
            "the text has {}, which {other} does not have",
            format!("{number} {unit}").trim()
        );
        Violation::of(file, what, EQUAL)
    };
    one.missing_in(others).map(figure).collect()
}

/// The numbers of a line, without the commas within them.
fn numbers(line: &str) -> impl Iterator<Item = String> {
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let words = line.split(move |c: char| !digits(c)).map(|word| word.replace(',', ""));
    let words = words.map(|word| word.trim_matches('.').to_owned());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().into_iter()
}

/// The blocks in a language that the other page lacks.
fn alone(file: &str, one: &[Block<'_>], other: &str, others: &[Block<'_>]) -> Vec<Violation> {
    let mut there: Vec<_> = others.iter().map(code).collect();
    let mut found = Vec::new();
    for block in one.iter().filter(|block| !block.language.is_empty()) {
        let code = code(block);
        match there.iter().position(|candidate| *candidate == code) {
            Some(at) => drop(there.swap_remove(at)),
            None => {
                let what = format!("a block of code that {other} does not have");
                let next = "make the blocks equal but for their comments";
                found.push(Violation::at(file, block.line, what, next));
            }
        }
    }
    found
}

/// The lines of a block without comments, trailing blanks and empty lines.
fn code<'a>(block: &Block<'a>) -> Vec<&'a str> {
    let comment = match block.language {
        "rust" | "go" | "java" | "js" | "ts" => "//",
        "sql" => "--",
        _ => "#",
    };
    let bare = |line: &'a str| {
        let starts = |at: usize| at == 0 || line[..at].ends_with(char::is_whitespace);
        let comment = line.match_indices(comment).find(|(at, _)| starts(*at));
        comment.map_or(line, |(at, _)| &line[..at]).trim_end()
    };
    block.lines.iter().map(|line| bare(line)).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_equal_but_for_their_comments() {
        let one = "a\n```sh\nrun it   # in one language\n\nrun `#3`#x\n```\n";
        let two = "b\n```sh\nrun it # in another\nrun `#3`#x\n```\n";
        assert!(check(&Tree::of([("README.md", one), ("README.zh-CN.md", two)])).is_empty());
    }

    #[test]
    fn each_block_that_the_other_lacks_is_a_violation() {
        let one = "```rust\nf(); // a\n```\n\n```sh\na\n```\n";
        let two = "```rust\nf(); // b\n```\n\n```sh\nb\n```\n";
        let found = check(&Tree::of([("README.md", one), ("README.zh-CN.md", two)]));
        let lines: Vec<_> = found.iter().map(|v| (v.file.as_str(), v.line)).collect();
        assert_eq!(lines, [("README.md", Some(5)), ("README.zh-CN.md", Some(5))]);
    }

    #[test]
    fn a_file_that_is_missing_is_a_violation() {
        assert_eq!(check(&Tree::of([("README.md", "")])).len(), 1);
    }

    /// What is wrong with a pair of pages in `docs`.
    fn pair(english: &str, chinese: &str) -> Vec<Option<usize>> {
        let readmes = [("README.md", ""), ("README.zh-CN.md", "")];
        let english = format!("{english}\n[中文](zh/a.md)\n");
        let chinese = format!("{chinese}\n[English](../a.md)\n");
        let pages = [("docs/a.md", english.as_str()), ("docs/zh/a.md", chinese.as_str())];
        let found = check(&Tree::of([readmes[0], readmes[1], pages[0], pages[1]]));
        found.into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_figure_in_a_table_that_the_english_page_lacks_is_a_violation() {
        let english = "It takes 1,500 ms.\n\n| a | 2.5 |\n";
        assert!(pair(english, "| 甲 | 1500 毫秒 |\n| 乙 | 2.5 |\n").is_empty());
        assert_eq!(pair(english, "1500 毫秒\n\n| 甲 | 2.6 |\n"), [Some(3)]);
    }

    #[test]
    fn a_figure_in_the_text_that_the_other_page_lacks_is_a_violation() {
        let english = "It takes 1,500 ms,\nand `20 s` of code; [a page](a-30s.md).\n";
        assert!(pair(english, "要 1500 毫秒。\n").is_empty());
        assert_eq!(pair(english, "要 1500 秒。\n"), [None, None]);
        assert_eq!(pair("It takes\n20 s.\n", "需要一会儿。\n"), [None]);
    }

    #[test]
    fn a_page_without_a_link_to_the_other_language_is_a_violation() {
        let readmes = [("README.md", ""), ("README.zh-CN.md", "")];
        let pages = [("docs/a.md", "[中文](zh/b.md)"), ("docs/zh/a.md", "[English](../a.md)")];
        let found = check(&Tree::of([readmes[0], readmes[1], pages[0], pages[1]]));
        assert_eq!(found.iter().map(|v| v.file.as_str()).collect::<Vec<_>>(), ["docs/a.md"]);
    }

    #[test]
    fn output_without_a_language_may_be_translated() {
        assert!(pair("```\nheld\n```\n", "```\n持有\n```\n").is_empty());
    }

    #[test]
    fn a_chinese_page_without_an_english_one_is_a_violation() {
        let readmes = [("README.md", ""), ("README.zh-CN.md", "")];
        let found = check(&Tree::of([readmes[0], readmes[1], ("docs/zh/a.md", "")]));
        assert_eq!(found.len(), 1);
    }
}
