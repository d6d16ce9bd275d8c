//! Makes text of other programs safe for terminals, logs and pages.

use serde_json::Value;

/// Shows characters that a terminal or a browser would obey as escapes: `\n`, `\e`, `\u{202e}`.
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

/// Writes JSON on one line with the same characters escaped as JSON allows: a program reads the
/// original text, and a terminal obeys nothing.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        // All of them have at most four digits, and occur only in strings.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(clean("\u{1b}[31mred\n\t\r\u{202e}\0"), r"\e[31mred\n\t\r\u{202e}\u{0}");
        assert_eq!(clean("名字 👩\u{200d}🚀 é"), "名字 👩\u{200d}🚀 é");
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}\u{9b}\n\u{2069}\u{61c}名" });
        let text = json(&value);
        assert!(!text.chars().any(is_obeyed), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
