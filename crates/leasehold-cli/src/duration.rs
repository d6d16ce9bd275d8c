//! Parses durations: `1.5`, `500ms`, `2h`.

use std::time::Duration;

/// What is allowed, for messages.
const ALLOWED: &str = "a number with an optional unit ms, s, m, h or d (none means seconds), \
                       such as 10, 0.5, 500ms or 2h";

/// Parses a duration; a number without a unit is seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        unit => return Err(format!("the unit {unit:?} is unknown; allowed is {ALLOWED}")),
    };
    if digits.starts_with('-') {
        return Err(format!("a negative time; allowed is {ALLOWED}"));
    }
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(format!("not a time; allowed is {ALLOWED}"));
    }
    let number: f64 = digits.parse().map_err(|_| format!("not a time; allowed is {ALLOWED}"))?;
    Duration::try_from_secs_f64(number * unit)
        .ok()
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| "too long; at most 36500d".to_owned())
}

/// A century: beyond it, sums with a clock may overflow.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// Parses the ttl of a lease: 10 ms to 24 h.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse(text)?;
    let allowed = Duration::from_millis(10)..=Duration::from_secs(86_400);
    if allowed.contains(&ttl) { Ok(ttl) } else { Err("allowed is 10ms to 24h".to_owned()) }
}

/// Parses a time that must not be zero.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_units() {
        for (text, ms) in [
            ("0", 0),
            ("1", 1000),
            ("0.5", 500),
            ("500ms", 500),
            ("2s", 2000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_what_is_allowed() {
        for text in ["", "-1", "-0.5s", "NaN", "inf", "infinity", "1e3", "1 s", "1w", "s", ".", "é"]
        {
            assert!(parse(text).unwrap_err().contains("allowed is"), "{text}");
        }
        assert!(parse("999999999999d").is_err() && parse(&"9".repeat(400)).is_err());
        assert!(parse_ttl("9ms").is_err() && parse_ttl("25h").is_err() && parse_ttl("24h").is_ok());
    }
}
