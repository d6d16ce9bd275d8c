//! What was saved, and by what it was known.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a [`SaveOnce`](super::SaveOnce) has done since it was opened, in rows.
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
    /// Handed over.
    asked,
    /// Of them known in this process.
    local,
    /// Known by a mark in Redis.
    marked,
    /// Sent to the database.
    attempts,
    /// Statements that they were sent by.
    batches,
    /// That the database did not take.
    failed,
}
