//! Filters of keys that have no value, checked before Redis and the loader.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_filters::bloom::{self, Answer};

use crate::per_process::PerProcess;
use crate::stats::Counters;
use crate::{BoxError, Result};

/// A filter that knows which keys have no value.
///
/// Add a key to the filter before its row is committed: the cache does not look for a key that is
/// [`Answer::Absent`]. After [`Answer::Unavailable`], the cache reads as if it had no filter.
#[derive(Clone)]
pub struct Filter(Kind);

#[derive(Clone)]
enum Kind {
    PerProcess(Arc<PerProcess>),
    Redis(bloom::Redis),
    By(Arc<dyn Fn(&str) -> Answer + Send + Sync>),
}

impl Filter {
    /// Creates a filter in the memory of this process, for this number of keys and this error rate
    /// (more than 0, less than 1).
    ///
    /// `load` adds the text of every key that exists. The cache also adds each key that any process
    /// writes, when it receives the invalidation.
    ///
    /// Add rows in the same way as you change values: with `begin_write`, `invalidate` or an
    /// outbox. Other processes learn of a new key by a message shortly after the write, so
    /// [`Mode::Strong`](crate::Mode::Strong) refuses this filter. It answers
    /// [`Answer::Unavailable`] until `load` has ended, and while the process cannot receive
    /// messages. After such a gap the filter is loaded again, and once more after `write_hold`,
    /// since a write that the process has not seen may commit until then. A failed load is retried,
    /// with a warning. If several caches are opened with this filter, each has its own copy.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) as [`bloom::Local::new`].
    pub fn per_process<L, E>(
        items: u64,
        error_rate: f64,
        load: impl Fn(Arc<bloom::Local>) -> L + Send + Sync + 'static,
    ) -> Result<Self>
    where
        L: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let load = Arc::new(move |filter| -> BoxFuture<'static, Result<(), BoxError>> {
            let loading = load(filter);
            Box::pin(async { loading.await.map_err(Into::into) })
        });
        Ok(Self(Kind::PerProcess(Arc::new(PerProcess::new(items, error_rate, load)?))))
    }

    /// Creates a filter that calls a function of the program with the text of each key. The
    /// function must also know the keys that other processes add.
    pub fn by(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self(Kind::By(Arc::new(answer)))
    }
}

impl From<bloom::Redis> for Filter {
    fn from(filter: bloom::Redis) -> Self {
        Self(Kind::Redis(filter))
    }
}

impl Filter {
    /// Returns the filter for one cache, with its own copy of the keys.
    pub(crate) fn for_one_cache(mut self) -> Self {
        if let Kind::PerProcess(filter) = &mut self.0 {
            *filter = Arc::new(filter.again());
        }
        self
    }

    /// Returns the filter if it learns from the messages that the cache receives.
    pub(crate) fn per_process_filter(&self) -> Option<&Arc<PerProcess>> {
        match &self.0 {
            Kind::PerProcess(filter) => Some(filter),
            _ => None,
        }
    }

    /// Returns for each key whether the filter excludes it.
    pub(crate) async fn absent(&self, keys: &[&str], counters: &Counters) -> Vec<bool> {
        let answers = match &self.0 {
            Kind::PerProcess(filter) => keys.iter().map(|key| filter.check(key)).collect(),
            Kind::Redis(filter) => filter.check_many(keys).await,
            Kind::By(answer) => keys.iter().map(|key| answer(key)).collect(),
        };
        let absent = answers.into_iter().map(|answer| {
            match answer {
                Answer::Absent => counters.filtered.add(),
                Answer::Unavailable => counters.filter_unavailable.add(),
                _ => {}
            }
            answer == Answer::Absent
        });
        absent.collect()
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::PerProcess(filter) => filter.fmt(f),
            Kind::Redis(filter) => filter.fmt(f),
            Kind::By(_) => f.write_str("By"),
        }
    }
}
