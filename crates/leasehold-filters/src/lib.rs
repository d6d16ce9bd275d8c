//! Bloom filters and bitmaps, in the memory of a process or in Redis for many processes.
//!
//! - [`bloom`]: Bloom filters, which tell whether an item was never added. A filter in Redis is
//!   never read as empty after a restart, a failover or an eviction.
//! - [`bitmap`]: sets of numbers as bits.
//!
//! `docs/filters.md` in the repository has the setup, the limits and measurements.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod atomic_bits;
pub mod bitmap;
pub mod bloom;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use leasehold_cache_redis::{Error, ErrorKind, Result};
