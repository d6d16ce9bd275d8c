//! The SQL engines of Leasehold: a lease table in PostgreSQL, MySQL, MariaDB or SQLite, and helpers for locking rows.
//!
//! The repository's `docs/sql.md` describes the guarantees, the set-up and the costs.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Without an engine there is nothing to lock with: the crate is empty.
#![cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]

mod address;
mod ask;
mod backend;
mod connect;
mod connection;
mod dialect;
mod end;
mod error;
mod examine;
mod forget;
#[cfg(feature = "postgres")]
mod listen;
mod pool;
mod record;
mod renew;
mod routines;
pub mod rows;
mod status;
mod store;
mod tables;
mod take;
mod told;
mod upkeep;
mod watch;

pub use backend::SqlBackend;
pub use connect::{connect, forget, init, statements};
pub use examine::examine;
