//! Counts saved rows, and how known rows were detected.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The row counts of a [`SaveOnce`](crate::SaveOnce) since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct SaveStats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(super) struct Counters { $(pub(super) $name: AtomicU64,)* }

        impl Counters {
            pub(super) fn stats(&self) -> SaveStats {
                SaveStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Rows that callers asked to save.
    asked,
    /// Rows whose key this process knew.
    local,
    /// Rows whose key had a mark in Redis.
    marked,
    /// Rows that were sent to the database.
    attempts,
    /// Statements that contained these rows.
    batches,
    /// Rows that the database refused.
    failed,
}
