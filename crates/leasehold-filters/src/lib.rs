//! Filters and bitmaps: in the memory of a process, and in Redis for all processes.
//!
//! - [`bloom`]: Bloom filters, which know what was never added. One in Redis is never read as empty after a restart, a
//!   failover or an eviction.
//! - [`bitmap`]: sets of numbers as bits.
//!
//! `docs/filters.md` in the repository has the set-up, the limits and the figures.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod atomic_bits;
pub mod bitmap;
pub mod bloom;

pub use leasehold_cache_redis::{Error, ErrorKind, Result};
