//! The SQL engines of Leasehold: a lock is a row of a lease table in PostgreSQL, MySQL, MariaDB or SQLite.
//!
//! Programs use it through the crate `leasehold` with the feature `postgres`, `mysql` or `sqlite`. To use this crate
//! alone:
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> leasehold_core::Result<()> {
//! use leasehold_core::{Client, StoreUrl};
//!
//! let url = StoreUrl::parse("postgres://user@127.0.0.1/shop")?;
//! let client = Client::new(std::sync::Arc::new(leasehold_sql::connect(url).await?))?;
//! let guard = client.lock("orders/555").acquire().await?;
//! println!("holding with token {}", guard.token());
//! guard.release().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! It needs PostgreSQL 12, MySQL 8.0, MariaDB 10.6 or newer; SQLite is built in. [`connect`] lists the URLs. The tables
//! are created at the first use, or by the statements that [`statements`] returns.
//!
//! | what happens | what follows |
//! |---|---|
//! | the holder crashes | the next waiter acquires when the ttl ends (30 s by default), by the database's clock |
//! | a release | PostgreSQL notifies the next waiter if it can listen; otherwise, and on the others, it looks again after an eighth of the time that it has waited, 0.4 s at most |
//! | the database fails over | no lease is lost if the replica has all transactions; otherwise tokens still grow unless the new clock is behind, so a check at the resource refuses the older holder |
//! | a transaction of the program fails | the lock is not affected: it uses connections of its own |
//!
//! - Acquire and release are one statement each.
//! - The module [`rows`] locks the rows of a program's own tables, and checks fencing tokens in its own transactions.
//! - [`init`] creates the tables with another user than the program's, [`examine`] finds wrong settings, [`forget`] removes
//!   rows that no client needs any more.
//!
//! The repository's `docs/sql.md` has the guarantees, the options, the rights and the costs.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Without an engine there is nothing to lock with: the crate is empty.
#![cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]

mod acquire;
mod address;
mod backend;
mod connect;
mod connection;
mod dialect;
mod doctor;
mod error;
mod forget;
mod maintenance;
mod notifications;
#[cfg(feature = "postgres")]
mod notify_listener;
mod pool;
mod record;
mod release;
mod renew;
mod routines;
pub mod rows;
mod status;
mod store;
mod stored_origin;
mod tables;
mod take_statement;
mod watch;

pub use backend::SqlBackend;
pub use connect::{connect, forget, init, statements};
pub use doctor::examine;
