//! The options of a lock, and the check that they fit together before anything is sent.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::semaphore::Demand;
use leasehold_proto::{Terms, drift, loss_margin};

use crate::backend::{Mode, Origin};
use crate::local_queue::Wish;
use crate::on_loss::OnLoss;
use crate::shared::Shared;
use crate::timer_buckets::bucket_width;
use crate::{Capability, Error, ErrorKind, LeaseKind, Result};

/// The shortest lease that can be asked for.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(10);
/// The longest lease that can be asked for.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(24 * 3600);
const MAX_HOLD: Duration = Duration::from_secs(365 * 24 * 3600);
const MAX_METADATA: usize = 1024;

/// The default ttl of a lock.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// How long a lease is cached, in nanoseconds: a program may have very many locks, and this is half of a [`Duration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheTime(u64);

impl CacheTime {
    /// The cache time of the client.
    pub(crate) const CLIENT: Self = Self(u64::MAX);

    /// Returns this time, or 584 years if it is longer, which no lock may have.
    pub(crate) fn new(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1))
    }

    /// Returns `None` for the cache time of the client.
    fn get(self) -> Option<Duration> {
        (self != Self::CLIENT).then(|| Duration::from_nanos(self.0))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) ttl: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) renew_after: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Duration,
    pub(crate) cache: CacheTime,
    pub(crate) on_loss: OnLoss,
    /// The client's own origin, unless the lock has metadata.
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) fair: bool,
    /// No other task of this process gets the lease: the store shows each holder.
    pub(crate) alone: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: None,
            lease: None,
            renew_after: None,
            wait: None,
            max_hold: None,
            min_hold: Duration::ZERO,
            cache: CacheTime::CLIENT,
            on_loss: OnLoss::Cancel,
            origin: None,
            fair: true,
            alone: false,
        }
    }
}

impl Options {
    /// Returns what an acquire with these options wants.
    pub(crate) fn wish(&self, shared: &Shared, mode: Mode, demand: Option<Demand>) -> Result<Wish> {
        let terms = self.terms(&shared.capability)?;
        let origin = self.origin.as_ref().unwrap_or(&shared.origin).clone();
        let Self { on_loss, fair, alone, .. } = *self;
        Ok(Wish { mode, demand, terms, fair, origin, on_loss, alone })
    }

    /// Returns the terms to ask this engine for, or the error of an invalid option.
    pub(crate) fn terms(&self, capability: &Capability) -> Result<Terms> {
        if let Some(ttl) = self.ttl {
            within("ttl", ttl, MIN_TTL, MAX_TTL)?;
        }
        if let Some(lease) = self.lease {
            within("lease", lease, MIN_TTL, MAX_TTL)?;
        }
        if let Some(max_hold) = self.max_hold {
            within("max_hold", max_hold, MIN_TTL, MAX_HOLD)?;
        }
        within("min_hold", self.min_hold, Duration::ZERO, MAX_TTL)?;
        if let Some(cache) = self.cache.get().filter(|cache| !cache.is_zero()) {
            check_cache(cache)?;
            if !capability.cached_leases {
                return Err(capability.no_cached_leases());
            }
            if let Some(lease) = self.lease {
                return Err(invalid(format!(
                    "cache: {cache:?} is set, but a fixed lease ({lease:?}) is not cached; set one"
                )));
            }
        }
        if let (Some(ttl), Some(lease)) = (self.ttl, self.lease) {
            return Err(invalid(format!(
                "lease: {lease:?} and ttl: {ttl:?} are both set; a fixed lease is its own ttl, \
                 set one"
            )));
        }
        if let (Some(lease), Some(max)) = (self.lease, self.max_hold)
            && lease > max
        {
            return Err(invalid(format!("lease: {lease:?} is longer than max_hold {max:?}")));
        }
        let end = [self.lease, self.max_hold].into_iter().flatten().min();
        if let Some(end) = end.filter(|end| *end < self.min_hold) {
            return Err(invalid(format!(
                "min_hold: {:?} is longer than the longest hold ({end:?})",
                self.min_hold
            )));
        }
        if let Some(text) = self.metadata().filter(|text| text.len() > MAX_METADATA) {
            return Err(invalid(format!(
                "metadata: has {} bytes; at most {MAX_METADATA} are allowed",
                text.len()
            )));
        }
        let asked = self.lease.or(self.ttl).unwrap_or(DEFAULT_TTL);
        let ttl = capability.longest_ttl.map_or(asked, |longest| asked.min(longest));
        let session = capability.lease == LeaseKind::Session;
        // A fixed lease that the engine can promise only in part is renewed until its end.
        let by_client = session || (self.lease.is_some() && ttl < asked);
        Ok(Terms {
            ttl,
            renew_after: self.renewal(ttl, by_client)?,
            max_hold: if by_client { end } else { self.max_hold },
            session,
        })
    }

    /// Returns for how long a lease is cached; `time` is the cache time of the client.
    pub(crate) fn cache_time(&self, time: Duration) -> Duration {
        if self.alone { Duration::ZERO } else { self.cache.get().unwrap_or(time) }
    }

    fn metadata(&self) -> Option<&str> {
        self.origin.as_ref().and_then(|origin| origin.metadata())
    }

    fn renewal(&self, ttl: Duration, by_client: bool) -> Result<Option<Duration>> {
        if let Some(after) = self.renew_after {
            if self.lease.is_some() {
                return Err(invalid(format!(
                    "renew_after: {after:?} is set, but a fixed lease is not renewed; set one"
                )));
            }
            let validity = ttl.saturating_sub(drift(ttl));
            let last = validity.saturating_sub(loss_margin(ttl, validity));
            // A shorter time than a bucket of the renewal task would renew without a pause.
            within(
                "renew_after",
                after,
                (bucket_width(ttl) * 2).max(Duration::from_millis(1)),
                last,
            )?;
        }
        let after = self.renew_after.unwrap_or(ttl / 3);
        Ok((self.lease.is_none() || by_client).then_some(after))
    }
}

/// Checks a cache time: zero, or at least a millisecond.
pub(crate) fn check_cache(cache: Duration) -> Result<()> {
    if cache.is_zero() {
        return Ok(());
    }
    within("cache", cache, Duration::from_millis(1), MAX_TTL)
}

pub(crate) fn within(field: &str, value: Duration, min: Duration, max: Duration) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(invalid(format!("{field}: {value:?}; {} to {} is allowed", human(min), human(max))))
}

fn human(time: Duration) -> String {
    match time.as_secs() {
        s if s >= 86_400 && s % 86_400 == 0 && s > 86_400 => format!("{} d", s / 86_400),
        s if s >= 3600 && s % 3600 == 0 => format!("{} h", s / 3600),
        _ => format!("{time:?}"),
    }
}

pub(crate) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Capability = Capability::new("test", LeaseKind::Ttl);

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn a_cache_time_is_kept_as_it_was_set_in_little_space() {
        assert_eq!(CacheTime::CLIENT.get(), None);
        for time in [Duration::ZERO, Duration::from_nanos(1), MAX_TTL] {
            assert_eq!(CacheTime::new(time).get(), Some(time));
        }
        assert!(check_cache(CacheTime::new(Duration::MAX).get().unwrap()).is_err());
        assert!(size_of::<Options>() <= 120, "{}", size_of::<Options>());
    }

    #[test]
    fn wrong_knobs_name_the_field_and_what_is_allowed() {
        let none = Options::default;
        for (options, part) in [
            (Options { ttl: Some(Duration::ZERO), ..none() }, "ttl: 0ns; 10ms to 24 h is allowed"),
            (Options { ttl: Some(Duration::from_millis(9)), ..none() }, "ttl: 9ms"),
            (Options { ttl: Some(secs(86_401)), ..none() }, "ttl: 86401s"),
            (
                Options { lease: Some(secs(2)), ttl: Some(secs(2)), ..none() },
                "lease: 2s and ttl: 2s",
            ),
            (
                Options { lease: Some(secs(9)), max_hold: Some(secs(5)), ..none() },
                "lease: 9s is longer",
            ),
            (Options { min_hold: secs(9), max_hold: Some(secs(5)), ..none() }, "min_hold: 9s"),
            (Options { min_hold: secs(9), lease: Some(secs(5)), ..none() }, "min_hold: 9s"),
            (Options { renew_after: Some(secs(29)), ..none() }, "renew_after: 29s"),
            (
                Options { renew_after: Some(Duration::from_millis(199)), ..none() },
                "renew_after: 199ms",
            ),
            (Options { renew_after: Some(secs(1)), lease: Some(secs(5)), ..none() }, "renew_after"),
            (Options { max_hold: Some(Duration::MAX), ..none() }, "max_hold"),
            (
                Options {
                    origin: Some(Origin::new("h", 1, Some("x".repeat(1025))).into()),
                    ..none()
                },
                "metadata: has 1025",
            ),
        ] {
            let error = options.terms(&TTL).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.message().starts_with(part), "{error}");
        }
    }

    #[test]
    fn a_ttl_is_no_longer_than_the_engine_can_promise() {
        let mut bounded = TTL;
        bounded.longest_ttl = Some(secs(10));
        let terms = Options::default().terms(&bounded).unwrap();
        assert_eq!((terms.ttl, terms.renew_after), (secs(10), Some(secs(10) / 3)));
        let short = Options { ttl: Some(secs(3)), ..Options::default() };
        assert_eq!(short.terms(&bounded).unwrap().ttl, secs(3));
        let fixed = Options { lease: Some(secs(60)), ..Options::default() };
        let terms = fixed.terms(&bounded).unwrap();
        assert_eq!((terms.ttl, terms.max_hold), (secs(10), Some(secs(60))));
        assert_eq!(terms.renew_after, Some(secs(10) / 3));
        let fixed = Options { lease: Some(secs(5)), ..Options::default() };
        assert_eq!(fixed.terms(&bounded).unwrap().renew_after, None);
    }

    #[test]
    fn a_fixed_lease_on_a_session_engine_ends_by_the_client() {
        let session = Capability::new("test", LeaseKind::Session);
        let options = Options { lease: Some(secs(5)), ..Options::default() };
        assert_eq!(options.terms(&session).unwrap().max_hold, Some(secs(5)));
        let on_ttl = options.terms(&TTL).unwrap();
        assert_eq!((on_ttl.ttl, on_ttl.renew_after, on_ttl.max_hold), (secs(5), None, None));
    }
}
