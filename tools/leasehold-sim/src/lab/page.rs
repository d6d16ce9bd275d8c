//! The tables of all stories, as the documentation has them.

use std::fmt::Write;

use super::cache::cache_stories;
use super::practice::Practice;
use super::primitives::primitive_stories;
use super::stories::{Story, stories};
use super::text::{Language, capital};
use super::words::about;
use crate::simulator::Setup;

/// The tables of the page on the lab: stories of locks, of caches, of read-write locks and semaphores, and set-ups.
pub fn tables(language: Language) -> String {
    let mut out = String::new();
    out += language.pick("### Stories of locks\n\n", "### 锁的故事\n\n");
    out += language.pick(
        "| story | what happens | goes wrong on | does not go wrong on |\n|---|---|---|---|\n",
        "| 故事 | 发生什么 | 在哪里出错 | 在哪里不出错 |\n|---|---|---|---|\n",
    );
    for story in stories() {
        let about = code(story.about.in_language(language));
        let (wrong, right) = (ends(story, true, language), ends(story, false, language));
        let _ = writeln!(out, "| `{}` | {about} | {wrong} | {right} |", story.name);
    }
    out += language.pick("\n### Stories of caches\n\n", "\n### 缓存的故事\n\n");
    out += language.pick(
        "| story | what happens | `recipe`: goes wrong | `leasehold`: does not |\n|---|---|---|---|\n",
        "| 故事 | 发生什么 | `recipe`：出错 | `leasehold`：不出错 |\n|---|---|---|---|\n",
    );
    for story in cache_stories() {
        let [recipe, ours] =
            Practice::ALL.map(|practice| code(&story.play(practice, 1).moral(language)));
        let about = story.about.in_language(language);
        let _ = writeln!(out, "| `{}` | {about} | {recipe} | {ours} |", story.name);
    }
    out += language.pick(
        "\n### Stories of read-write locks and semaphores\n\n",
        "\n### 读写锁和信号量的故事\n\n",
    );
    out += language.pick(
        "| story | what happens | `recipe`: goes wrong | `leasehold`: does not |\n|---|---|---|---|\n",
        "| 故事 | 发生什么 | `recipe`：出错 | `leasehold`：不出错 |\n|---|---|---|---|\n",
    );
    for story in primitive_stories() {
        let [recipe, ours] =
            Practice::ALL.map(|practice| code(&story.play(practice, 1).moral(language)));
        let about = story.about.in_language(language);
        let built = capital(story.built(Practice::Recipe, language));
        let end = language.pick(".", "。");
        let _ = writeln!(out, "| `{}` | {about} | {built}{end}<br>{recipe} | {ours} |", story.name);
    }
    out += language.pick("\n### Set-ups\n\n", "\n### 部署\n\n");
    out += language.pick("| set-up | what it is |\n|---|---|\n", "| 部署 | 说明 |\n|---|---|\n");
    for setup in Setup::ALL {
        let _ = writeln!(out, "| `{setup}` | {} |", about(setup, language));
    }
    for practice in Practice::ALL {
        let _ = writeln!(out, "| `{practice}` | {} |", practice.about(language));
    }
    out
}

/// The set-ups on which a story goes wrong, or does not, and its last words there.
fn ends(story: &'static Story, wrong: bool, language: Language) -> String {
    let setups = story.setups.iter().filter(|setup| story.play(**setup, 1).went_wrong() == wrong);
    let names: Vec<String> = setups.map(|setup| named(story, *setup, language)).collect();
    if names.is_empty() {
        return "–".to_owned();
    }
    let moral = if wrong { story.shown } else { story.spared };
    let names = names.join(language.pick(", ", "、"));
    format!("{names}<br>{}", code(moral.in_language(language)))
}

/// The name of a set-up, in bold if it is the default, and what it is in this story if that is not what it is elsewhere.
fn named(story: &Story, setup: Setup, language: Language) -> String {
    let name = match setup == story.setup() {
        true => format!("**`{setup}`**"),
        false => format!("`{setup}`"),
    };
    match story.by_hand.iter().find(|(one, _)| *one == setup) {
        None => name,
        Some((_, text)) => {
            let text = text.in_language(language);
            language.pick(format!("{name} ({text})"), format!("{name}（{text}）"))
        }
    }
}

/// A text with its options and the names of other stories as code.
fn code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["--setup ", "lab "].iter().filter_map(|mark| begins(rest, mark)).min() {
        out += &rest[..at];
        rest = &rest[at..];
        let words = rest.find(' ').map_or(rest.len(), |blank| blank + 1);
        let name = rest[words..]
            .find(|c: char| !c.is_ascii_lowercase() && c != '-' && !c.is_ascii_digit());
        let end = name.map_or(rest.len(), |name| words + name);
        let _ = write!(out, "`{}`", &rest[..end]);
        rest = &rest[end..];
    }
    out + rest
}

/// Where the mark begins a word.
fn begins(text: &str, mark: &str) -> Option<usize> {
    let all = text.match_indices(mark).map(|(at, _)| at);
    all.into_iter().find(|at| !text[..*at].ends_with(|c: char| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_names_of_stories_are_code() {
        assert_eq!(code("a label (lab gc-pause)."), "a label (`lab gc-pause`).");
        assert_eq!(
            code("so (admission: --setup single-strict, redlock)"),
            "so (admission: `--setup single-strict`, redlock)"
        );
        assert_eq!(code("见 lab clock-jump-20。"), "见 `lab clock-jump-20`。");
    }
}
