//! Durations of requests: `500ms`, `30s`, `5m`, `2h`, or a number of seconds.

use std::time::Duration;

/// The longest duration of a request.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Parses a duration between `least` and a day; `field` names it in the error.
pub(crate) fn parse(field: &str, text: &str, least: Duration) -> Result<Duration, String> {
    let refused =
        || format!("{field}: {text:?} is not a duration; write 500ms, 30s or 5m, {least:?} to 24h");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| refused())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(refused()),
    };
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| refused())?;
    if time < least || time > LONGEST { Err(refused()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_limits_are_checked() {
        let of = |text| parse("ttl", text, Duration::from_millis(100)).ok();
        assert_eq!(of("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(of("30"), Some(Duration::from_secs(30)));
        assert_eq!(of("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(of("24h"), Some(LONGEST));
        for wrong in ["", "s", "-1s", "1d", "99ms", "25h", "1e9", "inf", "NaN", "1 s", "٣s"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
