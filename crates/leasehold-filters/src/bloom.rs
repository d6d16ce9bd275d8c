//! Filters that know what was never added: in this process, in Redis, and over a window of time.
//!
//! A filter is made for a number of items and an error rate: the share of items that were never
//! added for which it says [`Answer::Maybe`] all the same, once that number was added. It never says
//! [`Answer::Absent`] of an item that was added. It takes 9.6 bits an item at 1 %, 14.4 at 0.1 %.
//!
//! ```
//! use leasehold_filters::bloom::{Answer, Local};
//!
//! let filter = Local::new(1_000_000, 0.01)?;
//! filter.add("user/42");
//! assert_eq!(filter.check("user/42"), Answer::Maybe);
//! assert_eq!(filter.check("user/43"), Answer::Absent);
//! # Ok::<_, leasehold_filters::Error>(())
//! ```
//!
//! # The algorithm
//!
//! The same in every process and version, so that other languages can read and write the filter of
//! [`Redis`]. All numbers are unsigned, of 64 bits, and wrap.
//!
//! ```text
//! h1 = XXH64(item, seed 0)                 h2 = XXH64(item, seed 1)
//! g(i) = mix(h1 + i * h2)                  mix is fmix64 of MurmurHash3
//! shard = g(0) * shards >> 64              (the product has 128 bits)
//! bit 2i - 1 = g(i) * bits >> 64           i = 1 to hashes / 2, rounded up; bits: of one shard
//! bit 2i = (bit(2i - 1) + 1 + g(i) mod 62) mod bits         (none of the last, if hashes is odd)
//! ```
//!
//! That is double hashing ("Less Hashing, Same Performance", A. Kirsch and M. Mitzenmacher, 2006) on
//! 64 bits, mixed before it is brought down to the filter's size: without that, a small filter with
//! a low error rate answers wrongly more often than its size says. Bits come in pairs, near enough that
//! Redis reads both as one number (the idea is that of "One Memory Access Bloom Filters and Their
//! Generalization", Y. Qiao, T. Li and S. Chen, 2011); that takes up to 0.4 % more bits.
//!
//! Of `n` items at rate `p`: `hashes` is log2(1/p), rounded to whichever side needs fewer bits, 1 to
//! 64; `bits` is `hashes * n / x`, rounded up, 64 or more, where `x` is the root of
//!
//! ```text
//! p = (1 - 2u + u^2 * e^(x * pairs / hashes / 62))^pairs * (1 - u)^alone          u = e^-x
//! ```
//!
//! with `pairs` and `alone` of the `hashes` bits of an item.

mod generation;
mod lifecycle;
mod local;
mod rebuild;
mod redis;
mod rotating;
mod shape;
mod store;

pub use local::Local;
pub use rebuild::Rebuild;
pub use redis::{Builder, Redis};
pub use rotating::{Rotating, RotatingBuilder};
pub use shape::Stats;

/// The answer of a filter for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The item was never added.
    Absent,
    /// The item was added, or its bits are those of added items.
    Maybe,
    /// The filter cannot be asked, or does not know all items that were added. Proceed as with
    /// `Maybe`.
    Unavailable,
}
