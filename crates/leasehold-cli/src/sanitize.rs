//! Makes text of other users safe for a terminal.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// Marks where text was cut.
const ELLIPSIS: &str = "…";

/// Shows characters that a terminal would obey as escapes: `\n`, `\e`, `\u{202e}`. Each character
/// has its own escape, so that different names stay different.
pub(crate) fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            '\u{1b}' => shown.push_str("\\e"),
            c if is_obeyed(c) => shown.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => shown.push(c),
        }
    }
    shown
}

/// Writes JSON on one line, with the same characters escaped as JSON allows: a program reads the
/// original text, and a terminal obeys nothing.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        // All of them have four digits, and occur only in strings.
        if is_obeyed(c) {
            text.push_str(&format!("\\u{:04x}", c as u32));
        } else {
            text.push(c);
        }
    }
    text
}

/// Returns true for control characters, and those that change the text direction or begin a new
/// line.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
}

/// Cuts a text to this many columns, at its end.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let fits = |end: &usize| text.is_char_boundary(*end) && text[..*end].width() < width;
    match (0..text.len()).rev().find(fits) {
        Some(end) => format!("{}{ELLIPSIS}", &text[..end]),
        None => String::new(),
    }
}

/// As [`cut`], but keeps the text after the last slash as long as possible.
pub(crate) fn cut_before_slash(text: &str, width: usize) -> String {
    let (start, end) = text.split_at(text.rfind('/').unwrap_or(text.len()));
    match width.checked_sub(end.width()) {
        Some(left) if left > 0 => cut(start, left) + end,
        _ => cut(text, width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_each_as_its_own() {
        assert_eq!(clean("\u{1b}[31mred\n\t\r"), r"\e[31mred\n\t\r");
        assert_eq!(
            clean("a\u{202e}b\u{2066}\u{200f}\0\u{9b}"),
            r"a\u{202e}b\u{2066}\u{200f}\u{0}\u{9b}"
        );
        assert_eq!(clean("名字 👩\u{200d}🚀 é"), "名字 👩\u{200d}🚀 é");
    }

    #[test]
    fn json_means_the_same_and_holds_nothing_to_obey() {
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}\u{9b}\n\u{2069}\u{61c}名" });
        let text = json(&value);
        assert!(!text.chars().any(is_obeyed), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn a_text_is_cut_to_its_columns() {
        for (text, width, shown) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("名字名", 5, "名字…"),
            ("名字名", 4, "名…"),
            ("名", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(cut(text, width), shown);
        }
        assert_eq!(cut_before_slash("long-host/1234", 9), "lon…/1234");
        assert_eq!(cut_before_slash("host/1234", 9), "host/1234");
        assert_eq!(cut_before_slash("host/1234", 4), "hos…");
        assert_eq!(cut_before_slash("plain-text", 4), "pla…");
    }
}
