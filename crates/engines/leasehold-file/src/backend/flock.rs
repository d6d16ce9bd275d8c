//! Locks that callers of flock(2) share: `?wire=flock`. A lock is a file that flock(1) would lock under the same path.

mod backend;
mod doctor;
mod file_name;
mod folder;
mod kernel;
mod place;
mod status;
mod store;

pub use backend::FlockBackend;
