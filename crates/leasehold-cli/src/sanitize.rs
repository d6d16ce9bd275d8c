//! Makes text of other users safe for a terminal.

pub(crate) use leasehold::safe_text::clean;
use leasehold::safe_text::clean_json;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// Marks where text was cut.
const ELLIPSIS: &str = "…";

/// Writes JSON on one line, in which a terminal obeys nothing.
pub(crate) fn json(value: &Value) -> String {
    clean_json(&value.to_string())
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
    fn json_means_the_same_and_holds_nothing_to_obey() {
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}\u{9b}\n\u{2069}\u{61c}名" });
        let text = json(&value);
        assert_eq!(clean(&text), text, "a terminal obeys a character of it");
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
