//! An engine under test.

use std::fmt;
use std::sync::Arc;

use leasehold_core::backend::Backend;

/// One engine, set up: a maker of independent connections to one and the same store.
#[derive(Clone)]
pub struct Subject {
    /// Its name in the matrix.
    pub name: String,
    /// A URL by which another process reaches the same store, where that is possible.
    pub url: Option<String>,
    connect: Arc<dyn Fn() -> Arc<dyn Backend> + Send + Sync>,
}

impl Subject {
    /// A subject whose store is reached by `connect`, each call a connection of its own.
    pub fn new(
        name: impl Into<String>,
        connect: impl Fn() -> Arc<dyn Backend> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), url: None, connect: Arc::new(connect) }
    }

    /// Adds the URL for other processes.
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// A new connection.
    pub fn connect(&self) -> Arc<dyn Backend> {
        (self.connect)()
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).field("url", &self.url).finish()
    }
}
