//! The figures of a text in English or Chinese: numbers with their units, and large numbers.

use std::collections::BTreeSet;

/// A number as it is compared, with its unit, or without one if it is large.
pub(super) type Figure = (String, &'static str);

/// Units, the longest spelling of a beginning first.
const UNITS: [(&str, &str); 50] = [
    ("th percentile", "%"),
    ("milliseconds", "ms"),
    ("millisecond", "ms"),
    ("seconds", "s"),
    ("second", "s"),
    ("minutes", "min"),
    ("minute", "min"),
    ("hours", "h"),
    ("hour", "h"),
    ("days", "d"),
    ("day", "d"),
    ("bytes", "B"),
    ("byte", "B"),
    ("bits", "bit"),
    ("bit", "bit"),
    ("min", "min"),
    ("KiB", "KiB"),
    ("MiB", "MiB"),
    ("GiB", "GiB"),
    ("kB", "kB"),
    ("KB", "kB"),
    ("MB", "MB"),
    ("GB", "GB"),
    ("ms", "ms"),
    ("µs", "µs"),
    ("us", "µs"),
    ("ns", "ns"),
    ("s", "s"),
    ("h", "h"),
    ("d", "d"),
    ("B", "B"),
    ("%", "%"),
    ("个字节", "B"),
    ("个小时", "h"),
    ("个 bit", "bit"),
    ("毫秒", "ms"),
    ("微秒", "µs"),
    ("纳秒", "ns"),
    ("分钟", "min"),
    ("小时", "h"),
    ("字节", "B"),
    ("比特", "bit"),
    ("分位", "%"),
    ("秒", "s"),
    ("天", "d"),
    ("位", "bit"),
    ("-second", "s"),
    ("-minute", "min"),
    ("-hour", "h"),
    ("-bit", "bit"),
];

/// Numbers as words: English, Chinese, the value.
const WORDS: [(&str, &str, u32); 13] = [
    ("twenty", "二十", 20),
    ("thirty", "三十", 30),
    ("two", "两", 2),
    ("two", "二", 2),
    ("three", "三", 3),
    ("four", "四", 4),
    ("five", "五", 5),
    ("six", "六", 6),
    ("seven", "七", 7),
    ("eight", "八", 8),
    ("nine", "九", 9),
    ("ten", "十", 10),
    ("one", "一", 1),
];

/// From this value on, a number without a unit is a figure too.
const LARGE: f64 = 100.0;

/// The figures of a text without code.
pub(super) fn figures(text: &str) -> Found {
    let mut found = Found::default();
    let mut before = ' ';
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = number(rest);
        if length > 0 && !is_part_of_a_word(before) {
            let value = rest[..length].replace(',', "");
            let value = value.trim_end_matches('.').to_owned();
            found.number(&value, &rest[length..]);
        } else if length == 0 && !is_part_of_a_word(before) {
            found.word(rest);
        }
        let step = length.max(first.len_utf8());
        let last = rest[..step].chars().last().unwrap_or(' ');
        // A blank behind 第 does not end an ordinal.
        before = if last == ' ' && before == '第' { before } else { last };
        rest = &rest[step..];
    }
    found
}

/// The figures of a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Those that a translation must have.
    pub(super) sure: BTreeSet<Figure>,
    /// Those that a translation may write in another way: "a second", "一秒".
    pub(super) possible: BTreeSet<Figure>,
}

impl Found {
    /// The figures that a translation lacks.
    pub(super) fn missing_in<'a>(
        &'a self,
        translation: &'a Self,
    ) -> impl Iterator<Item = &'a Figure> {
        let known = |figure: &&Figure| {
            !translation.sure.contains(*figure) && !translation.possible.contains(*figure)
        };
        self.sure.iter().filter(known)
    }

    fn number(&mut self, value: &str, rest: &str) {
        let rest = rest.strip_prefix([' ', '\u{a0}']).unwrap_or(rest);
        let many = [("万", 1e4), ("亿", 1e8)].iter().find(|(word, _)| rest.starts_with(word));
        let amount = value.parse::<f64>().unwrap_or(0.0) * many.map_or(1.0, |(_, factor)| *factor);
        if let Some(unit) = unit(rest) {
            self.sure.insert((value.to_owned(), unit));
        }
        if amount >= LARGE {
            self.sure.insert((amount.to_string(), ""));
        }
    }

    fn word(&mut self, rest: &str) {
        let lower: String = rest.chars().take(8).flat_map(char::to_lowercase).collect();
        for (english, chinese, value) in WORDS {
            let word = lower.starts_with(english).then(|| rest.get(english.len()..)).flatten();
            let word = word.filter(|behind| behind.starts_with([' ', '-']));
            let behind = rest.strip_prefix(chinese).or(word);
            if let Some(unit) = behind.and_then(|behind| unit(behind.trim_start())) {
                let known = if value == 1 { &mut self.possible } else { &mut self.sure };
                known.insert((value.to_string(), unit));
                return;
            }
        }
        for article in ["a ", "an ", "per ", "每"] {
            if let Some(unit) = rest.strip_prefix(article).and_then(unit) {
                self.possible.insert(("1".to_owned(), unit));
            }
        }
    }
}

/// The length of the number that the text starts with: digits with commas and points between them.
fn number(text: &str) -> usize {
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return 0;
    }
    let inside = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let length = text.find(|c| !inside(c)).unwrap_or(text.len());
    text[..length].trim_end_matches(['.', ',']).len()
}

/// The unit that the text starts with.
fn unit(text: &str) -> Option<&'static str> {
    let starts = |(spelling, _): &&(&str, &str)| {
        let behind = text.strip_prefix(spelling);
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        behind.is_some_and(|behind| !spelling.is_ascii() || !behind.starts_with(word))
    };
    UNITS.iter().find(starts).map(|(_, unit)| *unit)
}

/// A digit behind this character belongs to a name, a version or a longer number.
fn is_part_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '_' | '.' | '-' | '/' | '第' | '^')
        || "二三四五六七八九十几".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(one: &str, other: &str) -> Vec<Figure> {
        figures(one).missing_in(&figures(other)).cloned().collect()
    }

    #[test]
    fn the_same_figures_in_two_languages_are_equal() {
        for (english, chinese) in [
            ("after 30 s, or 1.5 seconds", "30 秒或 1.5 秒之后"),
            ("for two minutes; two-minute runs", "两分钟"),
            ("200,000 rows a second", "每秒 20 万行"),
            ("an hour", "1 小时"),
            ("the 99.9th percentile", "99.9 分位"),
            ("a random 128-bit id", "128 位随机标识"),
            ("3.4.31 and RFC 9110", "3.4.31，RFC 9110"),
        ] {
            assert_eq!(missing(english, chinese), [], "{english}");
            assert_eq!(missing(chinese, english), [], "{chinese}");
        }
    }

    #[test]
    fn other_figures_differ_both_ways() {
        for (one, other) in [
            ("20 s", "30 秒"),
            ("20 s", "20 毫秒"),
            ("1,000 tasks", "100 个任务"),
            ("five days", "六天"),
        ] {
            assert_eq!(missing(one, other).len(), 1, "{one}");
            assert_eq!(missing(other, one).len(), 1, "{other}");
        }
    }

    #[test]
    fn small_numbers_names_and_ordinals_are_no_figures() {
        for text in
            ["5 nodes", "7.0.15", "h264", "第 3 天", "x1s", "step 2 of 3", "an eighth of it"]
        {
            assert!(figures(text).sure.is_empty(), "{text}: {:?}", figures(text));
        }
    }
}
