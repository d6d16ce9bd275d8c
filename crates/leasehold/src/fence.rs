//! Fencing checks for the protected resource: it refuses writes of a holder that has lost its lock.
//!
//! A lock alone cannot stop a late write. A holder may be paused (garbage collection, a stopped
//! container, a slow disk) *after* it last checked its guard and before its write arrives. During
//! the pause its lease expires, and another client acquires the lock and writes. Shorter leases,
//! renewal or another engine do not prevent this, because the pause stops the renewal too.
//!
//! So each guard has a [`Token`](crate::Token), which is larger for every later holder of the same
//! lock. The holder sends it with each write, and the resource refuses a token smaller than the
//! largest it has seen. It accepts an equal token: that is the same holder. Martin Kleppmann
//! describes the idea in "How to do distributed locking" (2016).
//!
//! Use fencing if doing the work twice does *harm*. If it only costs time or money, the lock is
//! enough.
//!
//! | resource | check | feature |
//! |---|---|---|
//! | in the memory of this process | [`Fence`], with the data under one mutex | |
//! | a value in Redis | `redis::RedisFence::set_if_newer` | `fence-redis` |
//! | a value in Redis, written without a token | `redis::RedisFence::set_if_owner`: checks only equality, not order | `fence-redis` |
//! | an HTTP service | `http::FenceLayer`, header `Leasehold-Token` | `fence-http` |
//! | a row in SQL with a column for the token | `sql::RowFence::check`, in the transaction of the write | `postgres`, `mysql`, `sqlite` |
//! | any data written in a SQL transaction | `sql::FenceTable::check` | the same |
//!
//! Three rules apply to all checks:
//!
//! - Check and write must be one atomic step. A pause between them allows the late write again.
//! - Use one lock per resource. Tokens of different locks cannot be compared.
//! - A holder that reads must announce its token before it reads, by [`Guard::announce`](crate::Guard::announce).
//!   Otherwise a late write of the previous holder can arrive during or after the read: a reader sees
//!   data change under it, and a writer overwrites what it has not read.
//!
//! | fence | the resource for `guard.announce(&fence, resource)` |
//! |---|---|
//! | [`Fence`] | its name |
//! | `redis::RedisFence` | `(&mut connection, key)` |
//! | `sql::RowFence` | `(&pool, key)`; it commits a transaction of its own, so begin the one that reads after it |
//! | `sql::FenceTable` | `(&pool, resource)`, likewise |
//! | `http::FenceLayer` | none: `http::put_token` on the request that reads announces the token |
//!
//! A fence orders holders, not the writes of one holder: it accepts a repeated write with the same
//! token.

#[cfg(feature = "fence-http")]
pub mod http;
mod memory;
#[cfg(feature = "fence-redis")]
pub mod redis;
/// Fenced rows in PostgreSQL, MySQL, MariaDB and SQLite: the transaction that writes also checks
/// the token. Needs one of the features `mysql`, `postgres` and `sqlite`.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod sql {
    pub use leasehold_sql::rows::{Engine, FenceTable, RowFence, failure};
}

pub use leasehold_core::{Announce, Fenced, Stale};
pub use memory::Fence;
