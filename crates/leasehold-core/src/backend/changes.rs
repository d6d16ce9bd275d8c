//! The pushes of an engine to the observers of a lock.

use tokio::sync::watch;

/// Marks the changes of one lock for those who observe it.
#[derive(Debug)]
pub struct ChangeSource(watch::Sender<()>);

/// Marked as changed when the state of a lock may have changed. Changes that follow each other closely
/// are one.
#[derive(Debug)]
pub struct Changes(watch::Receiver<()>);

impl ChangeSource {
    /// Creates a source without observers.
    pub fn new() -> Self {
        Self(watch::channel(()).0)
    }

    /// Returns what the later changes mark.
    pub fn observe(&self) -> Changes {
        Changes(self.0.subscribe())
    }

    /// Marks a change.
    pub fn mark(&self) {
        self.0.send_replace(());
    }

    /// Waits until no one observes the lock.
    pub async fn unobserved(&self) {
        self.0.closed().await;
    }

    /// Returns true while someone observes the lock.
    pub fn is_observed(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

impl Default for ChangeSource {
    fn default() -> Self {
        Self::new()
    }
}

impl Changes {
    /// Waits for a change since the last call, or since the observer was created. Returns false if
    /// there will be no more. If the future is dropped, no change is lost.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
