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
//! | a release | PostgreSQL sends the lease to the next waiter if it can listen. Otherwise, and on the other databases, the waiter polls after an eighth of the time that it has waited, 0.4 s at most |
//! | the database fails over | no lease is lost if the replica has all transactions. Otherwise tokens still grow unless the new clock is behind, so a check at the resource refuses the older holder |
//! | a transaction of the program fails | the lock is not affected: it uses separate connections |
//!
//! - Acquire and release are one statement each.
//! - The module [`rows`] locks the rows of a program's own tables, and checks fencing tokens in its own transactions.
//! - [`init`] creates the tables with another user than the program's, [`diagnose`] finds wrong
//!   settings, [`forget`] removes rows that no client needs.
//!
//! # Requests
//!
//! A packet is one message with some statements: one round trip, and one commit if it writes.
//!
//! | operation | packets |
//! |---|---|
//! | acquire a free lock, release a lock without waiters | 1 each (on PostgreSQL without its functions 2 more for the first use of a name) |
//! | renew up to 256 leases | 1 |
//! | join the queue | 1 on PostgreSQL; on MySQL 2, or 1 if clients waited for the lock lately; 3 with readers and on SQLite |
//! | hand the lock to the first waiter | 1 and a NOTIFY with the lease on PostgreSQL; on MySQL 1, or 2 if no client waited lately, and polls of the waiter; 2 with readers and on SQLite |
//! | poll for waiting tasks | 1 for all locks of a client |
//! | hand the lock off within a process | 0 |
//!
//! - No transaction is open across a round trip. An operation reads the row, lets the hand-off
//!   record decide, and writes the row on condition that its `stamp` is unchanged. If another
//!   client wrote first, the operation is repeated. It then first marks the row as possibly waited
//!   for, so that no single statement acquires or releases the lock before its next step.
//! - PostgreSQL plans each text statement again. So on PostgreSQL, acquire and release are
//!   functions, which run with the caller's rights and are planned once per connection. A client
//!   that cannot create them tries again every five minutes. On MySQL, they are packets of
//!   conditional statements if clients wait. Both do a step of the record if clients write, none
//!   read, and all waiters are alive; otherwise they do nothing.
//! - The NOTIFY about a hand-off has the waiter's lease, which is valid as if it had counted from
//!   the waiter's request: the client adds the time between both by the database's clock, less 1 %.
//!   A message from before the answer to the request is not used; a poll finds out.
//! - A release writes the lease to the first waiter as an offer of 2 s, or of the ttl if that is
//!   less. A waiter whose client was silent for 45 s is ignored. A step on a lock removes the rows
//!   of at most 64 such waiters.
//! - If the database does not notify, a client polls with one statement for all locks that its
//!   tasks wait for. The pause is an eighth of the wait, 1 ms to 0.4 s, minus a random part. It is
//!   at least eight times the duration of a poll, up to 10 ms. In the first millisecond of a wait
//!   there is no pause, except on SQLite; nor in the first 4 ms if the last wait for that lock was
//!   shorter than that. A client that holds a lock polls for
//!   waiters of other clients only while one of its own tasks waits.
//! - A transaction removes at most 1,000 rows, and a client at most 100,000 rows per hour. A row
//!   stays until the database's clock has passed its last token.
//!
//! The repository's `docs/sql.md` has the options, the rights, the guarantees, the limits and the tables.
//!
//! What follows is the page of the store in the documentation; its links to other pages work in the repository.

#![cfg_attr(all(doc, not(doctest)), doc = include_str!("../docs.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Without an engine there is nothing to lock with: the crate is empty.
#![cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]

mod acquire;
mod address;
mod backend;
mod connect;
mod connection;
mod contended;
mod convert;
mod dialect;
mod doctor;
mod error;
mod forget;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hold;
mod kind;
mod latch;
mod lock_step;
mod maintenance;
mod notifications;
#[cfg(feature = "postgres")]
mod notify_listener;
mod observed;
mod observers;
mod pool;
mod record;
mod release;
mod renew;
mod rounds;
mod routines;
pub mod rows;
mod semaphore;
mod shedlock;
mod shedlock_table;
mod status;
mod store;
mod stored_data;
mod stored_origin;
mod tables;
mod take_statement;
mod watch;

pub use backend::SqlBackend;
pub use connect::{connect, connect_with_wire, forget, init, names_a_wire, statements};
pub use doctor::diagnose;
pub use shedlock::ShedLockBackend;
