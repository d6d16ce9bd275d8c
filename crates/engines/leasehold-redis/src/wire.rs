//! Other libraries' formats of a lock: `?wire=set-nx`, `?wire=rueidis` and `?wire=redisson`. A client then excludes the
//! clients of those libraries under the same name, in any language.

mod backend;
mod keys;
pub(crate) mod mark;
mod origins;
mod quorum;
pub(crate) mod reply;
mod waiting;

pub(crate) use crate::wire_format::Wire;
pub use backend::WireBackend;
pub use quorum::WireQuorum;
pub(crate) use quorum::too_few;
