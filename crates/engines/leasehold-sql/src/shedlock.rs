//! Locks in the table of ShedLock: `?wire=shedlock`. They exclude programs that use ShedLock with `usingDbTime()` on the same
//! table.

mod attempts;
mod backend;
mod columns;
pub(crate) mod row;

pub use backend::ShedLockBackend;
pub(crate) use columns::check;
