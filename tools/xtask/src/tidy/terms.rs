//! The Chinese pages and messages use one word for one thing.

use super::Violation;
use super::markdown::{spans, split};
use super::messages::LISTS;
use super::tree::Tree;

/// A word that is not used, what is used instead, and the pages that may use it.
struct Term {
    not: &'static str,
    but: &'static str,
    except: &'static [&'static str],
}

/// Pages that name the articles' terms and their own words for them.
const QUOTES: [&str; 3] = ["docs/zh/articles.md", "docs/zh/debate.md", "docs/zh/glossary.md"];

const TERMS: [Term; 11] = [
    // The command's page has the job control of a shell, which calls it so.
    Term { not: "暂停", but: "停顿", except: &["docs/zh/command.md"] },
    Term { not: "主库", but: "主节点", except: DATABASES },
    Term { not: "从库", but: "从节点", except: DATABASES },
    Term { not: "答复", but: "应答", except: &[] },
    Term { not: "校验令牌", but: "检查令牌", except: &[] },
    Term { not: "令牌校验", but: "令牌检查", except: &[] },
    Term { not: "伤到锁", but: "影响锁，或者：让锁失效", except: &[] },
    Term { not: "浸泡", but: "长时间压力测试", except: &[] },
    Term { not: "重放", but: "重演", except: &[] },
    Term { not: "基准测试", but: "性能测试", except: &[] },
    Term { not: "提前告知", but: "提前通知", except: &[] },
];

/// Pages about databases, which have a 主库 and 从库; Redis servers are 主节点 and 从节点.
const DATABASES: &[&str] =
    &["docs/zh/cache.md", "docs/zh/cache-outbox.md", "docs/zh/sql.md", "docs/zh/sql-rows.md"];

/// Sentinel is introduced by this word in brackets, and called Sentinel otherwise.
const SENTINEL: &str = "哨兵";

/// The names of pages, as links to them say.
const NAMES: [(&str, &[&str]); 4] = [
    ("choosing.md", &["选型"]),
    ("once.md", &["只保存一次", "同一行数据只保存一次"]),
    ("quorum.md", &["红锁"]),
    ("sql-rows.md", &["库存与并发更新"]),
];

/// Checks the text of the Chinese pages outside code, and the translations of messages.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, text) in tree.files.iter().filter(|(file, _)| file.starts_with(LISTS)) {
        for (at, line) in text.lines().enumerate() {
            // The messages about databases are in the same lists as those about Redis.
            found.extend(words(file, at + 1, line, |term| term.except != DATABASES));
        }
    }
    let pages = tree.markdown().filter(|(file, _)| {
        (file.starts_with("docs/zh/") || *file == "README.zh-CN.md") && !QUOTES.contains(file)
    });
    for (file, text) in pages {
        for (number, line) in split(text).0 {
            let line = spans(line).0;
            found.extend(words(file, number, &line, |term| !term.except.contains(&file)));
            found.extend(links(file, number, &line));
        }
    }
    found
}

/// Words of a line that are not used.
fn words(file: &str, number: usize, line: &str, counts: impl Fn(&Term) -> bool) -> Vec<Violation> {
    let mut found = Vec::new();
    for term in TERMS.iter().filter(|term| counts(term) && line.contains(term.not)) {
        let next = format!("write {}", term.but);
        found.push(Violation::at(file, number, format!("the word {}", term.not), next));
    }
    if line.replace("（哨兵）", "").contains(SENTINEL) {
        let next = "write Sentinel, or once Sentinel（哨兵）";
        found.push(Violation::at(file, number, format!("the word {SENTINEL}"), next));
    }
    found
}

/// Links of a line whose text is not the name of the page.
fn links(file: &str, number: usize, line: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let target = line[at + 2..].split(')').next().unwrap_or_default();
        let text = line[..at].rsplit('[').next().unwrap_or_default();
        let page = target.rsplit('/').next().unwrap_or_default();
        let english = target.starts_with("../");
        for (_, names) in NAMES.iter().filter(|(name, _)| *name == page && !english) {
            let example = text.is_ascii() || text.contains('_'); // Such as save_once: the page shows its output.
            if !example && !names.contains(&text) {
                let what = format!("a link to {page} with the text {text}");
                let next = format!("name the page: {}", names.join(", "));
                found.push(Violation::at(file, number, what, next));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<Option<usize>> {
        let found = check(&Tree::of([(file, text)]));
        found.into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn another_word_for_the_same_thing_is_found() {
        let text = "进程暂停。\n没有应答。\n没有答复。\n`暂停`\n";
        assert_eq!(lines("docs/zh/a.md", text), [Some(1), Some(3)]);
        assert_eq!(lines("docs/zh/command.md", text), [Some(3)]);
        assert_eq!(lines("docs/a.md", text), []);
    }

    #[test]
    fn a_database_has_words_of_its_own_for_its_servers() {
        assert_eq!(lines("docs/zh/redis.md", "主库\n"), [Some(1)]);
        assert_eq!(lines("docs/zh/sql.md", "主库\n"), []);
        let list = format!("{LISTS}stores.txt");
        assert_eq!(lines(&list, "the master\n请写主库\n"), []);
        assert_eq!(lines(&list, "no answer\n没有答复\n\nsentinel\n哨兵\n"), [Some(2), Some(5)]);
    }

    #[test]
    fn sentinel_is_introduced_once_in_brackets() {
        assert_eq!(lines("README.zh-CN.md", "Sentinel（哨兵）\n哨兵\n"), [Some(2)]);
    }

    #[test]
    fn a_link_has_the_name_of_its_page() {
        let text = "[红锁](quorum.md) [多数派](quorum.md) [怎么选](docs/zh/choosing.md)\n\
                    [选哪个](choosing.md#a) [x](../quorum.md)\n";
        assert_eq!(lines("docs/zh/a.md", text), [Some(1), Some(1)]);
    }
}
