//! Counts the viewers of live events, for which the stores are scanned more often.

use std::sync::atomic::Ordering;

use crate::app::App;
use crate::scan::Viewer;

/// A viewer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Viewing {
    app: App,
    _viewers: Vec<Viewer>,
}

impl Viewing {
    pub(crate) fn of(app: &App) -> Self {
        app.counters.viewers.fetch_add(1, Ordering::Relaxed);
        let viewers = app.stores.iter().map(|shown| shown.scans.view()).collect();
        Self { app: app.clone(), _viewers: viewers }
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        self.app.counters.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}
