//! An outline for new engines of Leasehold.
#![doc = include_str!("../README.md")]

mod backend;
mod record;
mod store;

pub use backend::TemplateBackend;
pub use store::KeyValueStore;
