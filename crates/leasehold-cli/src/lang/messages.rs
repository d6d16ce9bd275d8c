//! The Chinese for messages that are made in English: those of the library, and of this command.
//!
//! The library's messages are for programs too, so they stay in English, and in `--json` as well. A
//! person gets the translation, by a list of patterns: English, Chinese, a blank line. `{}` is a
//! value, translated in turn if it is a message of its own; `{2}` in Chinese is the second one. `cargo xtask tidy` checks that each
//! English line is a text of the sources. What is not in the list stays in English, with the kind
//! of the error before it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use leasehold::ErrorKind;

use super::{Lang, lang};

/// The lists.
const LISTS: [&str; 5] = [
    include_str!("messages/command.txt"),
    include_str!("messages/address.txt"),
    include_str!("messages/stores.txt"),
    include_str!("messages/quorum.txt"),
    include_str!("messages/doctor.txt"),
];

/// How many texts are looked up for one message.
const MOST_TEXTS: usize = 500;

/// Longer messages, in bytes, stay as they are.
const LONGEST: usize = 4096;

/// How many parts between commas a message of a list has at most.
const LONGEST_ITEM: usize = 3;

/// A pattern: the English text around its values, and the Chinese.
struct Entry {
    english: Vec<&'static str>,
    chinese: &'static str,
}

/// Returns the message in the language of this process, as far as it has a translation.
pub(crate) fn told(message: &str) -> Cow<'_, str> {
    match lang() {
        Lang::English => message.into(),
        Lang::Chinese => chinese(message).map_or_else(|| message.into(), Cow::from),
    }
}

/// Returns the message in Chinese; `None` if it has no translation.
pub(crate) fn chinese(message: &str) -> Option<String> {
    if message.len() > LONGEST {
        return None;
    }
    Translator { left: MOST_TEXTS, known: HashMap::new() }.translate(message)
}

/// Returns what an error is, for one whose message has no translation.
pub(crate) fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "参数无效",
        ErrorKind::Unsupported => "存储不支持",
        ErrorKind::Timeout => "超时",
        ErrorKind::Lost => "锁已丢失",
        ErrorKind::Conflict => "与另一个事务冲突",
        ErrorKind::Unavailable => "存储不可用",
        ErrorKind::Refused => "存储拒绝",
        ErrorKind::Foreign => "数据不属于 leasehold，或者已损坏",
        ErrorKind::Closed => "客户端已关闭",
        _ => "出错",
    }
}

/// Returns the name of an operation of the library; those of subcommands stay.
pub(crate) fn operation(name: &str) -> &str {
    match name {
        "acquire" => "获取",
        "connect" => "连接",
        "count-down" => "减计数",
        "release" => "释放",
        "renew" => "续期",
        "reset" => "重置",
        "wait" => "等待",
        other => other,
    }
}

/// A way to read a message.
enum Reading<'a> {
    /// As this entry, with these values.
    Entry(&'static Entry, Vec<&'a str>),
    /// As several messages with commas between them; a message may contain a comma.
    List(&'a str),
    /// As a message behind a place.
    Place(&'a str, &'a str),
    /// As a message and a detail in parentheses.
    Detail(&'a str, &'a str),
    /// As a message and a next step.
    Step(&'a str, &'a str),
}

/// Translates one message, in the reading that leaves the fewest English words. What a server says
/// may be odd, so that the work has a bound.
struct Translator<'a> {
    /// How many texts may still be looked up.
    left: usize,
    known: HashMap<&'a str, Option<String>>,
}

impl<'a> Translator<'a> {
    fn translate(&mut self, text: &'a str) -> Option<String> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        self.left = self.left.checked_sub(1).filter(|_| !text.is_empty())?;
        let mut best: Option<(usize, String)> = None;
        for reading in readings(text) {
            let Some(read) = self.read(&reading) else { continue };
            let words = english_words(&read);
            if best.as_ref().is_none_or(|(fewest, _)| words < *fewest) {
                best = Some((words, read));
            }
            if words == 0 {
                break;
            }
        }
        let best = best.map(|(_, read)| read);
        self.known.insert(text, best.clone());
        best
    }

    fn read(&mut self, reading: &Reading<'a>) -> Option<String> {
        match reading {
            Reading::Entry(entry, values) => Some(self.filled(entry.chinese, values)),
            Reading::List(text) => self.list(text),
            Reading::Place(place, message) => {
                let message = self.translate(message)?;
                Some(format!("{}：{message}", self.or_same(place)))
            }
            Reading::Detail(message, detail) => self
                .either(message, detail)
                .map(|[message, detail]| format!("{message}（{detail}）")),
            Reading::Step(message, step) => {
                self.either(message, step).map(|[message, step]| format!("{message}；{step}"))
            }
        }
    }

    /// Translates each message of a list: the text up to a comma of which the fewest words
    /// stay English.
    fn list(&mut self, text: &'a str) -> Option<String> {
        let (mut rest, mut messages) = (text, Vec::new());
        while !rest.is_empty() {
            let commas = rest.match_indices(", ").map(|(at, _)| at);
            let ends = commas.chain([rest.len()]).take(LONGEST_ITEM);
            let ends = ends.filter(|end| *end < text.len());
            let read = ends.filter_map(|end| Some((end, self.translate(&rest[..end])?)));
            // The first of equals is the shortest.
            let (end, message) = read.min_by_key(|(_, read)| english_words(read))?;
            messages.push(message);
            rest = rest[end..].strip_prefix(", ").unwrap_or_default();
        }
        Some(messages.join("，"))
    }

    fn or_same(&mut self, text: &'a str) -> String {
        self.translate(text).unwrap_or_else(|| text.to_owned())
    }

    /// Translates two parts, if it knows one of them.
    fn either(&mut self, one: &'a str, other: &'a str) -> Option<[String; 2]> {
        let (first, second) = (self.translate(one), self.translate(other));
        let is_known = first.is_some() || second.is_some();
        is_known.then(|| {
            [first.unwrap_or_else(|| one.to_owned()), second.unwrap_or_else(|| other.to_owned())]
        })
    }

    /// Puts the values into the Chinese text: in their order, or as `{2}` says.
    fn filled(&mut self, chinese: &str, values: &[&'a str]) -> String {
        let mut pieces = chinese.split('{');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for (order, piece) in pieces.enumerate() {
            let (number, after) = piece.split_once('}').unwrap_or(("", piece));
            let at = number.parse().map_or(order, |number: usize| number.saturating_sub(1));
            text.push_str(&self.or_same(values.get(at).copied().unwrap_or_default()));
            text.push_str(after);
        }
        text
    }
}

/// The ways to read a message, the most specific first.
fn readings(text: &str) -> Vec<Reading<'_>> {
    // Before the entries: a value of an entry would take in the other messages of a list.
    let mut all: Vec<_> = text.contains(", ").then_some(Reading::List(text)).into_iter().collect();
    let entries = entries().iter().filter_map(|entry| Some((entry, entry.values(text)?)));
    all.extend(entries.map(|(entry, values)| Reading::Entry(entry, values)));
    let split = |at: usize| (&text[..at], &text[at + 2..]);
    let places = text.match_indices(": ").map(|(at, _)| split(at));
    all.extend(places.map(|(place, message)| Reading::Place(place, message)));
    all.extend(parenthesis(text).map(|(message, detail)| Reading::Detail(message, detail)));
    let steps = text.match_indices("; ").map(|(at, _)| split(at));
    all.extend(steps.map(|(message, step)| Reading::Step(message, step)));
    all
}

/// Counts the blanks before a word of English: between two words, or a number and a word.
fn english_words(text: &str) -> usize {
    let is_between = |three: &[u8]| {
        three[1] == b' ' && three[0].is_ascii_alphanumeric() && three[2].is_ascii_alphabetic()
    };
    text.as_bytes().windows(3).filter(|three| is_between(three)).count()
}

/// Splits a text that ends with something in parentheses.
fn parenthesis(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_suffix(')')?;
    let mut open = 0_usize;
    for (at, letter) in inside.char_indices().rev() {
        match letter {
            ')' => open += 1,
            '(' if open > 0 => open -= 1,
            '(' => return Some((inside[..at].strip_suffix(' ')?, &inside[at + 1..])),
            _ => {}
        }
    }
    None
}

/// All entries; those with the most text of their own come first.
fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let mut entries: Vec<Entry> = LISTS.iter().flat_map(|list| listed(list)).collect();
        entries.sort_by_key(|entry| {
            std::cmp::Reverse(entry.english.iter().map(|text| text.len()).sum::<usize>())
        });
        entries
    })
}

/// The entries of a list; lines that begin with `#` are comments.
fn listed(list: &'static str) -> impl Iterator<Item = Entry> {
    let mut lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    std::iter::from_fn(move || {
        let (english, chinese) = (lines.next()?, lines.next()?);
        Some(Entry { english: english.split("{}").collect(), chinese })
    })
}

impl Entry {
    /// Returns the values of a text of this pattern.
    fn values<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let (first, others) = self.english.split_first()?;
        let mut rest = text.strip_prefix(first)?;
        let Some((last, between)) = others.split_last() else {
            return rest.is_empty().then(Vec::new);
        };
        let mut values = Vec::new();
        for text in between {
            let at = rest.find(text)?;
            values.push(&rest[..at]);
            rest = &rest[at + text.len()..];
        }
        values.push(rest.strip_suffix(last)?);
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_values_a_place_and_a_detail_is_translated() {
        let refused = "server redis://h:1: no server listens there; is the server running? \
                       (Connection refused (os error 111))";
        let told = chinese(refused).unwrap();
        assert_eq!(
            told,
            "服务器 redis://h:1：那里没有服务器在监听；服务器启动了吗？（连接被拒绝 (os error 111)）"
        );
        let nested = "cannot create the directory /x: File exists (os error 17); check this path and the system's log";
        assert_eq!(
            chinese(nested).unwrap(),
            "不能创建目录 /x：File exists (os error 17)；请检查这个路径和系统日志"
        );
        assert_eq!(
            chinese("a:1 does not answer, b:2 does not answer").unwrap(),
            "a:1 没有应答，b:2 没有应答"
        );
    }

    #[test]
    fn each_part_of_a_long_message_is_translated() {
        let denied = "granted by 0 of 1 nodes, 1 needed: node a:1 may have lost leases, and \
                      cannot vote until a client has run for another 61 s; a majority can vote \
                      when one client has run for another 61 s; each client counts its own time, \
                      so commands that do not wait (`leasehold run -n`) alone never complete the \
                      wait: keep one client waiting that long, or run `leasehold quorum init` (if \
                      clients may hold locks: `leasehold quorum init --after-loss`)";
        let told = chinese(denied).unwrap();
        assert!(
            told.starts_with("0 个节点授予（共 1 个），需要 1 个：节点 a:1 可能丢失过租约，"),
            "{told}"
        );
        assert!(told.contains("；某个客户端再运行 61 秒之后，多数节点就可以投票；"), "{told}");
        let unfit = "node a:1: maxmemory-policy is allkeys-lru, so the server may delete leases; set \
                     maxmemory-policy noeviction";
        let told = chinese(unfit).unwrap();
        assert_eq!(
            told,
            "节点 a:1：maxmemory-policy 是 allkeys-lru，服务器可能删除租约；请设 maxmemory-policy noeviction"
        );
    }

    #[test]
    fn each_of_several_like_reasons_is_translated() {
        let reason = |node: u16| {
            format!(
                "node h:{node} may have lost leases, and cannot vote until a client has run for \
                 another 60 s"
            )
        };
        let told_reason = |node: u16| {
            format!("节点 h:{node} 可能丢失过租约，要等某个客户端再运行 60 秒之后才能投票")
        };
        for nodes in [2..4, 1..4] {
            let reasons: Vec<String> = nodes.clone().map(reason).collect();
            let denied = format!(
                "granted by {} of 3 nodes, 2 needed: {}",
                3 - reasons.len(),
                reasons.join(", ")
            );
            let told_reasons: Vec<String> = nodes.map(told_reason).collect();
            let told = chinese(&denied).unwrap();
            assert!(told.ends_with(&format!("：{}", told_reasons.join("，"))), "{told}");
            let later = "a majority can vote when one client has run for another 61 s";
            let told = chinese(&format!("{denied}; {later}")).unwrap();
            assert!(told.contains(&told_reasons.join("，")), "{told}");
        }
    }

    #[test]
    fn a_message_without_a_translation_has_none() {
        let long = "x; a: b (c), ".repeat(LONGEST / 13);
        for text in
            [&*long, "", "ERR something odd", "a: b", "a; b (c)", "(", ")", "x)", "那里没有服务器"]
        {
            assert_eq!(chinese(text), None, "{text}");
        }
    }

    #[test]
    fn each_entry_has_as_many_values_in_chinese() {
        for entry in entries() {
            let values = entry.chinese.matches('{').count();
            assert_eq!(values, entry.english.len() - 1, "{:?}", entry.english);
            assert!(!entry.chinese.is_ascii(), "{:?}", entry.chinese);
        }
    }

    #[test]
    fn no_entry_is_a_word_that_may_be_the_name_of_a_lock() {
        let of_text = entries().iter().filter(|entry| entry.english.len() == 1);
        let words: Vec<_> = of_text.filter(|entry| !entry.english[0].contains(' ')).collect();
        assert!(
            words.is_empty(),
            "{:?}",
            words.iter().map(|entry| &entry.english).collect::<Vec<_>>()
        );
    }

    #[test]
    fn no_entry_hides_another() {
        for entry in entries() {
            let text = entry.english.join("1 s");
            let found = entries().iter().find(|other| other.values(&text).is_some()).unwrap();
            assert_eq!(found.chinese, entry.chinese, "{text}");
        }
    }
}
