//! Makes text of other programs safe for terminals, logs and pages.

/// Shows characters that a terminal or a browser would obey as escapes: `\n`, `\e`, `\u{202e}`. Each character has its
/// own escape, so that different names stay different.
pub fn clean(text: &str) -> String {
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

/// Escapes the same characters in JSON on one line, as JSON allows: a program reads the original text, and a terminal
/// obeys nothing.
pub fn clean_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        // All of them have at most four digits, and occur only in strings.
        if is_obeyed(c) {
            text.push_str(&format!("\\u{:04x}", c as u32));
        } else {
            text.push(c);
        }
    }
    text
}

/// Returns true for control characters, and those that change the text direction or begin a new line.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
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
    fn json_holds_nothing_to_obey() {
        let text = clean_json("{\"a\u{202e}\":\"\u{9b}\u{2069}\u{61c}名\"}");
        assert_eq!(text, r#"{"a\u202e":"\u009b\u2069\u061c名"}"#);
    }
}
