//! The server over its socket: what it promises, and attempts to break each safety rule.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests measure time")]

mod api;
mod elections;
mod ending;
mod engines;
mod events;
mod force;
mod hold;
mod hostile;
mod pages;
mod requests;
mod safety;
mod semaphores;
mod silence;
mod support;
mod waiting;
