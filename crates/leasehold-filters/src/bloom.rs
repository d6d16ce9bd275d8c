//! Bloom filters, which tell whether an item was never added: in this process, in Redis, and for a
//! window of time.
//!
//! A filter is created for a number of items and an error rate. It never answers [`Answer::Absent`]
//! for an item that was added. The error rate is the share of other items for which it answers
//! [`Answer::Maybe`], once that number of items was added. A filter needs 9.6 bits per item for a
//! rate of 1 %, and 14.4 bits for 0.1 %.
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
//! The algorithm is the same in every process and version, so that other languages can read and
//! write the filter of [`Redis`]. All numbers are unsigned 64-bit integers that wrap on overflow.
//!
//! ```text
//! h1 = XXH64(item, seed 0)                 h2 = XXH64(item, seed 1)
//! g(i) = mix(h1 + i * h2)                  mix is fmix64 of MurmurHash3
//! shard = g(0) * shards >> 64              (the product has 128 bits)
//! bit 2i - 1 = g(i) * bits >> 64           i = 1 to hashes / 2, rounded up; bits: of one shard
//! bit 2i = (bit(2i - 1) + 1 + g(i) mod 62) mod bits         (none of the last, if hashes is odd)
//! ```
//!
//! This is double hashing ("Less Hashing, Same Performance", A. Kirsch and M. Mitzenmacher, 2006)
//! on 64 bits. The hash is mixed before it is scaled to the filter's size: without that, a small
//! filter with a low error rate is wrong more often than its size promises. The two bits of a pair
//! are close together, so that Redis reads both as one number (the idea of "One Memory Access Bloom
//! Filters and Their Generalization", Y. Qiao, T. Li and S. Chen, 2011). That needs up to 0.4 %
//! more bits.
//!
//! For `n` items at rate `p`, `hashes` is log2(1/p), rounded up or down to the value that needs
//! fewer bits, 1 to 64. `bits` is `hashes * n / x`, rounded up, at least 64, where `x` is the root
//! of
//!
//! ```text
//! p = (1 - 2u + u^2 * e^(x * pairs / hashes / 62))^pairs * (1 - u)^alone          u = e^-x
//! ```
//!
//! where `pairs` and `alone` count the bit pairs and single bits among the `hashes` bits of an
//! item.

pub(crate) mod generation;
mod lifecycle;
mod local;
mod rebuild;
mod redis;
mod rotating;
pub(crate) mod shape;
mod store;

pub use local::Local;
pub use rebuild::Rebuild;
pub use redis::{Builder, Redis};
pub use rotating::{Rotating, RotatingBuilder};
pub use shape::Stats;

/// The answer of a filter about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The item was never added.
    Absent,
    /// The item was added, or other items have set all of its bits.
    Maybe,
    /// The filter cannot be read, or may lack items that were added. Proceed as with `Maybe`.
    Unavailable,
}
