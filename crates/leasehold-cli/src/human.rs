//! Formats times and places for display.

use std::time::Duration;

use crate::lang::{Lang, lang, text};

/// Formats an age or a time left: `12 s`, `3 min`, `2 h`, `4 d`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() > 0 => text!("{} ms", "{} 毫秒", duration.as_millis()),
        0..120 => text!("{} s", "{} 秒", seconds),
        120..7200 => text!("{} min", "{} 分钟", seconds / 60),
        7200..172_800 => text!("{} h", "{} 小时", seconds / 3600),
        _ => text!("{} d", "{} 天", seconds / 86_400),
    }
}

/// Returns whole seconds, rounded up, for the rest of a wait.
pub(crate) fn seconds_up(time: Duration) -> u64 {
    u64::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Formats the rest of a wait, rounded up as in the messages of the library: the shown time never
/// ends before the wait does.
pub(crate) fn wait(left: Duration) -> String {
    span(Duration::from_secs(seconds_up(left)))
}

/// Returns the time since a moment; `None` if it is less than a second, or if the moment is in the
/// future because clocks differ.
pub(crate) fn age(unix_ms: u64, now_unix_ms: u64) -> Option<String> {
    let seconds = now_unix_ms.saturating_sub(unix_ms) / 1000;
    (seconds > 0).then(|| span(Duration::from_secs(seconds)))
}

/// Formats how long ago a moment was: `just now`, `3 min ago`.
pub(crate) fn ago(unix_ms: u64, now_unix_ms: u64) -> String {
    match age(unix_ms, now_unix_ms) {
        Some(age) => text!("{} ago", "{}前", age),
        None => just_now(),
    }
}

/// The text for less than a second ago.
pub(crate) fn just_now() -> String {
    text!("just now", "刚刚")
}

/// Formats a moment with date and zone, for readers on another day and in another place.
pub(crate) fn moment(unix_ms: u64) -> String {
    let (days, second) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Years begin in March, so the leap day is the last day. A cycle of 400 years began 719468 days
    // before 1970.
    let day = days + 719_468;
    let (cycle, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * march + 2) / 5 + 1, (march + 2) % 12 + 1);
    let year = cycle * 400 + year + u64::from(month <= 2);
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

/// Formats `1st`, `2nd`, `3rd`, `11th`.
pub(crate) fn ordinal(number: usize) -> String {
    if lang() == Lang::Chinese {
        return format!("第 {number}");
    }
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// Returns at most `limit` bytes of a text, cut between characters.
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
        assert_eq!(wait(Duration::from_millis(20_200)), "21 s");
    }

    #[test]
    fn places_in_line() {
        let all: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).into();
        assert_eq!(all.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 112th");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(truncate("名字", 4), "名");
        assert_eq!(truncate("ab", 9), "ab");
    }

    #[test]
    fn what_has_happened_in_this_second_has_just_happened() {
        assert_eq!((ago(500, 1000), ago(9000, 1000)), ("just now".into(), "just now".into()));
        assert_eq!((ago(0, 1000), ago(0, 185_000)), ("1 s ago".into(), "3 min ago".into()));
        assert_eq!(age(500, 1000), None);
        assert_eq!(age(0, 1000).as_deref(), Some("1 s"));
    }

    #[test]
    fn a_moment_has_its_date_and_zone() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696_789, "2000-02-29T12:34:56Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(moment(ms), text);
        }
    }
}
