//! The SQL engines of Leasehold: a lease table in PostgreSQL, MySQL, MariaDB or SQLite, and helpers for locking rows.
//!
//! What is promised, how it is set up and what it costs stands in the repository's `docs/sql.md`.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Where one engine is built alone, what the others need is unused, and a match on the engine has one arm.
#![cfg_attr(
    not(all(feature = "mysql", feature = "postgres", feature = "sqlite")),
    allow(dead_code, irrefutable_let_patterns, unused_mut, unused_variables)
)]

mod address;
mod ask;
mod backend;
mod connect;
mod connection;
mod dialect;
mod end;
mod error;
mod examine;
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
