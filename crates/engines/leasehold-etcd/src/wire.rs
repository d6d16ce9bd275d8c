//! The format of Go's `concurrency.Mutex`: `?wire=concurrency`. A client then excludes `etcdctl lock`, jetcd and all
//! clients of etcd's own lock service under the same name.
//!
//! The layout is that of the engine: a key for each attempt under a lease of its own, ordered by create revision. So
//! queue, renewal, release and watches are those of the engine, with other keys.

mod backend;
mod format;
mod mark;
mod status;

pub use backend::WireBackend;
pub(crate) use format::Format;
