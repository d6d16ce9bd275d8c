//! Times, places and foreign text as people read them.

use std::time::Duration;

/// An age or a time left: `12 s`, `3 min`, `2 h`, `4 d`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() > 0 => format!("{} ms", duration.as_millis()),
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The time since a moment, to the second; zero if the clocks differ so that it lies ahead.
pub(crate) fn since(unix_ms: u64, now_unix_ms: u64) -> String {
    span(Duration::from_secs(now_unix_ms.saturating_sub(unix_ms) / 1000))
}

/// `1st`, `2nd`, `3rd`, `11th`.
pub(crate) fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// Text that somebody else wrote, fit for a terminal: control characters are shown, not obeyed.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// At most `limit` bytes of a text, cut between characters.
pub(crate) fn truncate(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        for (seconds, text) in [
            (0, "0 s"),
            (12, "12 s"),
            (119, "119 s"),
            (185, "3 min"),
            (7300, "2 h"),
            (200_000, "2 d"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
        assert_eq!(span(Duration::from_millis(250)), "250 ms");
        assert_eq!(since(5000, 1000), "0 s");
    }

    #[test]
    fn places_in_line() {
        let all: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).into();
        assert_eq!(all.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 112th");
    }

    #[test]
    fn text_is_cut_between_characters_and_loses_its_escapes() {
        assert_eq!(truncate("名字", 4), "名");
        assert_eq!(truncate("ab", 9), "ab");
        assert_eq!(clean("\u{1b}[31mred\n"), "\u{fffd}[31mred\u{fffd}");
    }
}
