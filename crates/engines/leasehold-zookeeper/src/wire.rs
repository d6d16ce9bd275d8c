//! Locks in the formats of other libraries: `?wire=curator` and `?wire=kazoo`. A client then excludes the clients of that
//! library at the same path, in any language.

mod backend;
mod mark;

pub use backend::WireBackend;
