//! An engine under test.

use std::fmt;
use std::sync::Arc;

use leasehold_core::backend::{Backend, BoxFuture};

use crate::Bound;

/// One engine, set up: a maker of independent connections to one and the same store.
#[derive(Clone)]
pub struct Subject {
    /// Its name in the matrix.
    pub name: String,
    /// A URL by which another process reaches the same store, where that is possible.
    pub url: Option<String>,
    connect: Arc<dyn Fn() -> BoxFuture<'static, Arc<dyn Backend>> + Send + Sync>,
    bounds: Vec<(&'static str, Bound)>,
}

impl Subject {
    /// A subject whose store is reached by `connect`, each call a connection of its own, made in
    /// the runtime where it is used.
    pub fn new<C>(name: impl Into<String>, connect: impl Fn() -> C + Send + Sync + 'static) -> Self
    where
        C: Future<Output = Arc<dyn Backend>> + Send + 'static,
    {
        let connect = move || -> BoxFuture<'static, Arc<dyn Backend>> { Box::pin(connect()) };
        Self { name: name.into(), url: None, connect: Arc::new(connect), bounds: Vec::new() }
    }

    /// Adds the URL for other processes.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Adds how long cases take here at the most, by their names. For cases that have a bound and are not
    /// named it is [`Bound::AtOnce`].
    #[must_use]
    pub fn with_bounds(mut self, bounds: impl IntoIterator<Item = (&'static str, Bound)>) -> Self {
        self.bounds.extend(bounds);
        self
    }

    /// How long a case takes here at the most.
    pub fn bound(&self, case: &str) -> Bound {
        let found = self.bounds.iter().find(|(name, _)| *name == case);
        found.map_or(Bound::AtOnce, |(_, bound)| *bound)
    }

    /// A new connection.
    pub async fn connect(&self) -> Arc<dyn Backend> {
        (self.connect)().await
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).field("url", &self.url).finish()
    }
}
