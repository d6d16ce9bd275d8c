//! The language of a page, which the browser asks for, and durations in it.

use http::HeaderMap;
use http::header::ACCEPT_LANGUAGE;

/// A language of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lang {
    English,
    Chinese,
}

impl Lang {
    /// Returns the language that the browser prefers, of those that there are.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let wanted = headers.get(ACCEPT_LANGUAGE).and_then(|wanted| wanted.to_str().ok());
        let mut best = (Self::English, 0.0);
        for part in wanted.unwrap_or_default().split(',') {
            let mut words = part.split(';').map(str::trim);
            let tag = words.next().unwrap_or_default().to_ascii_lowercase();
            let quality = words.find_map(|word| word.strip_prefix("q=")?.parse().ok());
            let quality: f32 = quality.unwrap_or(1.0);
            let lang = match tag.split('-').next() {
                Some("zh") => Self::Chinese,
                Some("en" | "*") => Self::English,
                _ => continue,
            };
            if quality > best.1 {
                best = (lang, quality);
            }
        }
        best.0
    }

    /// Chooses between two texts.
    pub(super) fn pick<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }

    /// Returns the tag for the attribute `lang`.
    pub(super) fn tag(self) -> &'static str {
        self.pick("en", "zh-Hans")
    }

    /// Returns a duration with its two largest units; `live.js` does the same.
    pub(super) fn span(self, ms: u64) -> String {
        let units = self.pick(["ms", "s", "min", "h", "d"], ["毫秒", "秒", "分", "小时", "天"]);
        let seconds = ms / 1000;
        let two = |big: u64, big_unit: usize, small: u64| match small {
            0 => format!("{big} {}", units[big_unit]),
            small => format!("{big} {} {small} {}", units[big_unit], units[big_unit - 1]),
        };
        match seconds {
            0 => format!("{ms} {}", units[0]),
            1..60 => format!("{seconds} {}", units[1]),
            60..3600 => two(seconds / 60, 2, seconds % 60),
            3600..86400 => two(seconds / 3600, 3, seconds % 3600 / 60),
            _ => two(seconds / 86400, 4, seconds % 86400 / 3600),
        }
    }
}

/// Returns a moment in UTC: `2026-11-26 12:30:05`.
pub(super) fn utc(unix_ms: u64) -> String {
    let (days, seconds) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Howard Hinnant, "chrono-compatible low-level date algorithms": days to a civil date.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_browser_chooses_the_language() {
        let of = |wanted: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static(wanted));
            Lang::of(&headers)
        };
        assert_eq!(of("zh-CN,zh;q=0.9,en;q=0.8"), Lang::Chinese);
        assert_eq!(of("en-GB,en;q=0.9,zh;q=0.8"), Lang::English);
        assert_eq!(of("de,zh;q=0.5"), Lang::Chinese);
        assert_eq!(of("fr"), Lang::English);
        assert_eq!(Lang::of(&HeaderMap::new()), Lang::English);
    }

    #[test]
    fn durations_and_moments_are_readable() {
        let of = |ms| Lang::English.span(ms);
        assert_eq!(of(850), "850 ms");
        assert_eq!(of(12_900), "12 s");
        assert_eq!(of(65_000), "1 min 5 s");
        assert_eq!(of(7_200_000), "2 h");
        assert_eq!(of(90_000_000), "1 d 1 h");
        assert_eq!(Lang::Chinese.span(65_000), "1 分 5 秒");
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(1_709_210_096_000), "2024-02-29 12:34:56");
        assert_eq!(utc(4_102_444_799_000), "2099-12-31 23:59:59");
    }
}
