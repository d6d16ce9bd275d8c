//! Makes text of other programs safe for terminals, logs and pages.

pub(crate) use leasehold::safe_text::clean;
use leasehold::safe_text::clean_json;
use serde_json::Value;

/// Writes JSON on one line, in which a terminal obeys nothing.
pub(crate) fn json(value: &Value) -> String {
    clean_json(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}\u{9b}\n\u{2069}\u{61c}名" });
        let text = json(&value);
        assert_eq!(clean(&text), text, "a terminal obeys a character of it");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
