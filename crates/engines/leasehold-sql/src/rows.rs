//! Three ways to avoid lost updates of rows that many clients write.
//!
//! | way | what it does | here |
//! |---|---|---|
//! | pessimistic | locks the row, then reads and writes it | [`for_update()`] |
//! | optimistic | reads, computes, and writes if the row has not changed; otherwise repeats | [`Versioned`], [`retry()`] |
//! | a lock of Leasehold | one holder at a time for any work; the row checks its token | [`RowFence`], [`FenceTable`] |
//!
//! All of them work in the program's own transactions of the crate `sqlx` 0.8, on PostgreSQL,
//! MySQL, MariaDB and SQLite. The repository's `docs/sql-rows.md` compares and measures them.

#![allow(clippy::manual_async_fn, reason = "says `Send`, which callers that spawn cannot see")]

mod change;
mod database;
mod engine;
mod failure;
mod fence;
mod for_update;
mod name;
mod once;
mod retry;
mod statement;
mod versioned;

/// The version of the crate `sqlx` whose transactions these functions take.
pub use ::sqlx;
pub use change::Change;
pub use database::{Database, Visit};
pub use engine::Engine;
pub use failure::{failure, is_row_fault};
pub use fence::{FenceTable, RowFence};
pub use for_update::{Wait, for_update};
pub use name::Identifier;
pub use once::OnceTable;
pub use retry::{Tries, retry};
pub use statement::Statement;
pub use versioned::{Seen, Updated, Versioned};
