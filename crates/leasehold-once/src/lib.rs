//! Side effects that happen once for each request id, and rows that are saved once for each key.
//!
//! - [`RunOnce`]: one process does the work of a request, and later callers get its result.
//! - [`SaveOnce`]: rows from queues or sensors are saved once, however often they come.
//!
//! `docs/once.md` in the repository has the promises, the bounds and the figures.

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
