//! The resource's side of fencing: writes of a holder that has lost its lock are refused.
//!
//! A lock alone cannot keep a late write away. A holder may be paused (garbage collection, a
//! stopped container, a slow disk) *after* its last look at the guard and before its write
//! arrives; meanwhile its lease ends, and somebody else holds the lock and writes. No lease is
//! short enough, no renewal and no engine prevents that: the pause stops those as well.
//!
//! So each guard carries a [`Token`](crate::Token), larger for every later holder of the same
//! lock. It goes to the resource with each write, and the resource refuses a token smaller than
//! the largest it has seen. An equal one is the same holder, who may write again. The idea is
//! described by Martin Kleppmann, "How to do distributed locking" (2016).
//!
//! It is needed where doing the work twice does *harm*. Where that only costs time or money, the
//! lock is enough.
//!
//! | resource | check | feature |
//! |---|---|---|
//! | lives in this process | [`Fence`], beside the data under its mutex | |
//! | a value in Redis | `redis::RedisFence::set_if_newer` | `fence-redis` |
//! | a value in Redis, and no token at hand | `redis::RedisFence::set_if_owner`: equality only, knows no order | `fence-redis` |
//! | an HTTP service | `http::FenceLayer`, header `Leasehold-Token` | `fence-http` |
//! | a row in SQL, which has a column for it | `sql::RowFence::check`, in the transaction of the write | `postgres`, `mysql`, `sqlite` |
//! | anything that is written in a SQL transaction | `sql::FenceTable::check` | the same |
//!
//! Three rules hold for all of them:
//!
//! - Check and write are one step. A check, then a pause, then a write is where we began.
//! - One lock per resource. Tokens of different locks do not compare.
//! - A holder that reads first and writes later announces its token before it reads (a check
//!   does; see also `redis::RedisFence::announce`). Otherwise a late write of the holder before
//!   can slip in between, and is then overwritten unread.
//!
//! A fence orders holders, not the writes of one holder: a repeated write of the same token passes.

#[cfg(feature = "fence-http")]
pub mod http;
mod memory;
#[cfg(feature = "fence-redis")]
pub mod redis;
/// Fenced rows in PostgreSQL, MySQL, MariaDB and SQLite: the token is checked in the transaction
/// that writes. Needs one of the features `mysql`, `postgres` and `sqlite`.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod sql {
    pub use leasehold_sql::rows::{Engine, FenceTable, RowFence, failure};
}

pub use leasehold_core::{Fenced, Stale};
pub use memory::Fence;
