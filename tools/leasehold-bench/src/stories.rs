//! `cache-hot`, `cache-avalanche`, `cache-killed`: what each defence of the cache is worth, beside
//! cache-aside as it is usually written.

mod aside;
pub(crate) mod avalanche;
pub(crate) mod hot;
pub(crate) mod killed;

/// The subjects.
const SIDES: [&str; 2] = ["leasehold", "cache-aside"];
