//! The option `retain`: how long the record of a name that is not used is kept.

use std::time::Duration;

use leasehold_core::{Result, StoreUrl};

/// How long a record stays after the last lease at most, unless the URL says otherwise. It stays for seven eighths at least, here
/// 35 minutes: tokens grow though a clock goes back by half an hour.
pub(crate) const RETAIN: Duration = Duration::from_secs(40 * 60);
/// Seven eighths of the least value, 105 s, are longer than a caller waits for a release, and than tombstones and waiters stay.
const RETAINS: (Duration, Duration) =
    (Duration::from_secs(2 * 60), Duration::from_secs(720 * 3600));

/// Takes the option out of a URL.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for a value that is not allowed.
pub(crate) fn take(url: &mut StoreUrl) -> Result<Duration> {
    Ok(url.take_duration("retain", RETAINS)?.unwrap_or(RETAIN))
}

#[cfg(test)]
mod tests {
    use leasehold_core::ErrorKind;

    use super::*;
    use crate::quorum::{parse, parse_wire};
    use crate::topology::Store;

    fn url(text: &str) -> StoreUrl {
        StoreUrl::parse(text).unwrap()
    }

    /// The value that a URL of any kind leads to.
    fn of(text: &str) -> Result<Duration> {
        let mut url = url(text);
        if text.starts_with("redlock") && text.contains("wire=") {
            return parse_wire(&mut url).map(|list| list.addresses[1].retain);
        }
        match parse(&mut url)? {
            Some((addresses, ..)) => Ok(addresses.last().unwrap().retain),
            None => Store::parse(url).map(|store| store.retain),
        }
    }

    const URLS: &[&str] = &[
        "redis://h?",
        "redis+unix:/run/redis.sock?",
        "redis+sentinel://a,b,c/main?",
        "redis+cluster://a,b,c?",
        "redis://h?admission=strict&",
        "redis://h?replicas=1&",
        "redis://h?wire=set-nx&",
        "redis://h?wire=redisson&",
        "redlock://a,b,c?",
        "redlock://a,b,c?wire=set-nx&",
    ];

    #[test]
    fn every_kind_of_url_has_the_option() {
        for start in URLS {
            assert_eq!(of(start.trim_end_matches(['?', '&'])).unwrap(), RETAIN, "{start}");
            for (text, value) in [
                ("2m", Duration::from_secs(120)),
                ("1h30m", Duration::from_secs(5400)),
                ("720h", Duration::from_secs(720 * 3600)),
            ] {
                assert_eq!(of(&format!("{start}retain={text}")).unwrap(), value, "{start}");
            }
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_its_range() {
        for start in URLS {
            for value in ["119s", "0s", "721h", "40", "", "-5m", "1d"] {
                let error = of(&format!("{start}retain={value}")).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{start}{value}");
                let said = error.to_string();
                for part in [format!("retain {value:?}"), "120s to 2592000s".to_owned()] {
                    assert!(said.contains(&part), "{start}{value}: {said}");
                }
            }
        }
    }

    #[test]
    fn a_misspelt_option_is_told_from_this_one() {
        let error = Store::parse(url("redis://h?retains=5m")).unwrap_err().to_string();
        assert!(error.contains("retain"), "{error}");
    }
}
