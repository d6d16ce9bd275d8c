//! Runs side effects once per request id, and saves rows once per key.
//!
//! - [`RunOnce`]: one process does the work of a request, and later callers get its result.
//! - [`SaveOnce`]: saves rows from queues or sensors once, however often they arrive.
//!
//! `docs/once.md` in the repository has the guarantees, the limits and measurements.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod run_once;
mod save_once;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod table;

pub use leasehold_cache_redis::{BoxError, Codec, Error, ErrorKind, Result};
pub use run_once::{Begun, Run, RunOnce, RunOnceBuilder};
pub use save_once::{SaveOnce, SaveOnceBuilder, SaveStats, Store, StoreError};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use table::Table;
