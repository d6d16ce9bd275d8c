//! Parses durations: `1.5`, `500ms`, `2h`, `2m30s`.

use std::time::Duration;

/// What is allowed, for messages.
const ALLOWED: &str = "a number with an optional unit ms, s, m, h or d (none means seconds), \
                       such as 10, 0.5, 500ms or 2h, or several with units, the largest first, such \
                       as 2m30s";

/// The units in milliseconds, the largest first.
const UNITS: [(&str, f64); 5] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("m", 60_000.0), ("s", 1000.0), ("ms", 1.0)];

/// Parses a duration; a number without a unit is seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err(format!("a negative time; write {ALLOWED}"));
    }
    let not_a_time = || format!("not a time; write {ALLOWED}");
    let (mut rest, mut units, mut whole) = (text, &UNITS[..], Duration::ZERO);
    loop {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let (number, after) = rest.split_at(rest.len() - digits.len());
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = if unit.is_empty() && number.len() == text.len() { "s" } else { unit };
        if unit.is_empty() {
            return Err(not_a_time());
        }
        let Some(at) = units.iter().position(|(name, _)| *name == unit) else {
            let what = match UNITS.iter().any(|(name, _)| *name == unit) {
                true => "comes after a unit that is not larger",
                false => "is unknown",
            };
            return Err(format!("the unit {unit:?} {what}; write {ALLOWED}"));
        };
        let number: f64 = number.parse().map_err(|_| not_a_time())?;
        let part = Duration::try_from_secs_f64(number * units[at].1 / 1000.0).ok();
        whole = part
            .and_then(|part| whole.checked_add(part))
            .filter(|whole| *whole <= LONGEST)
            .ok_or_else(|| "too long; at most 36500d is allowed".to_owned())?;
        (rest, units) = (after, &units[at + 1..]);
        if rest.is_empty() {
            return Ok(whole);
        }
    }
}

/// A century: beyond it, sums with a clock may overflow.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// Parses the ttl of a lease: 10 ms to 24 h.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse(text)?;
    let allowed = Duration::from_millis(10)..=Duration::from_secs(86_400);
    if allowed.contains(&ttl) { Ok(ttl) } else { Err("10ms to 24h is allowed".to_owned()) }
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
            ("2m30s", 150_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1.5m0.5s", 90_500),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_what_is_allowed() {
        for text in ["", "-1", "-0.5s", "NaN", "inf", "infinity", "1e3", "1 s", "1w", "s", ".", "é"]
        {
            assert!(parse(text).unwrap_err().contains("write a number"), "{text}");
        }
        assert!(parse("999999999999d").is_err() && parse(&"9".repeat(400)).is_err());
        assert!(parse_ttl("9ms").is_err() && parse_ttl("25h").is_err() && parse_ttl("24h").is_ok());
    }
}
