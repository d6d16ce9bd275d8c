//! How many replicas must acknowledge a grant: the option `replicas`.

use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

/// The largest number of replicas that an option may name.
const MOST: usize = 100;

/// How many replicas must acknowledge a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Count(usize),
    /// Enough that with the master they are more than half of the servers.
    Majority,
}

impl Policy {
    /// Takes `replicas=K` or `replicas=majority` out of a URL.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        let Some(text) = url.take("replicas") else { return Ok(None) };
        let count = text.parse().ok().filter(|count| (1..=MOST).contains(count));
        match (text.as_str(), count) {
            ("majority", _) => Ok(Some(Self::Majority)),
            (_, Some(count)) => Ok(Some(Self::Count(count))),
            _ => {
                let what = format!(
                    "store URL: replicas {text:?}; a number from 1 to {MOST} or majority is allowed"
                );
                Err(Error::new(ErrorKind::Invalid, what))
            }
        }
    }

    /// Returns the number, if this many replicas are known.
    pub(crate) fn needs(self, known: usize) -> Result<usize> {
        match (self, known) {
            (Self::Count(count), _) => Ok(count),
            (Self::Majority, 0) => Err(Error::new(
                ErrorKind::Refused,
                "replicas=majority, but the master has no known replicas",
            )),
            (Self::Majority, known) => Ok(known.div_ceil(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_counts_the_master() {
        for (known, needed) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            assert_eq!(Policy::Majority.needs(known).unwrap(), needed, "{known}");
            assert!(2 * (needed + 1) > known + 1 && 2 * needed <= known + 1, "{known}");
        }
        assert_eq!(Policy::Majority.needs(0).unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(Policy::Count(3).needs(0).unwrap(), 3);
    }

    #[test]
    fn the_option_is_a_number_or_majority() {
        let take = |url: &str| Policy::take(&mut StoreUrl::parse(url).unwrap());
        assert_eq!(take("redis://h").unwrap(), None);
        assert_eq!(take("redis://h?replicas=2").unwrap(), Some(Policy::Count(2)));
        assert_eq!(take("redis://h?replicas=majority").unwrap(), Some(Policy::Majority));
        for wrong in ["0", "-1", "all", "101", ""] {
            let error = take(&format!("redis://h?replicas={wrong}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong}");
        }
    }
}
