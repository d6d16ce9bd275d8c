//! Other libraries' formats of a lock: `?wire=set-nx` and `?wire=redisson`. A client then excludes the clients of those
//! libraries under the same name, in any language.

mod backend;
mod keys;
mod mark;
mod reply;
mod waiting;

pub(crate) use crate::wire_format::Wire;
pub use backend::WireBackend;
