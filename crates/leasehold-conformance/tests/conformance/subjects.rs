//! The engines under test, each set up in its own temporary place.

use std::sync::Arc;

use leasehold::Backend;
use leasehold::memory::MemoryStore;
use leasehold_conformance::Subject;
use tempfile::TempDir;

/// The engines, and what must stay alive while they are used.
pub(crate) struct Setup {
    pub(crate) subjects: Vec<Subject>,
    _directories: Vec<TempDir>,
}

pub(crate) fn all() -> Setup {
    let store = MemoryStore::new();
    let memory = Subject::new("memory", move || {
        let backend: Arc<dyn Backend> = Arc::new(store.connect());
        std::future::ready(backend)
    });
    let directory = tempfile::tempdir().unwrap();
    let file = by_url("file", format!("file:{}", directory.path().join("locks").display()));
    Setup { subjects: vec![memory, file], _directories: vec![directory] }
}

/// An engine that is reached by its URL alone.
fn by_url(name: &str, url: String) -> Subject {
    let reached = url.clone();
    let connect = move || {
        let url = url.clone();
        async move { leasehold::open(&url).await.unwrap() }
    };
    Subject::new(name, connect).with_url(reached)
}
