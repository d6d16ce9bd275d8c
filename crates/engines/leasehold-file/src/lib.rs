//! The file backend of Leasehold: locks in a directory on one machine, without a server.
//!
//! A holder has the kernel's lock on an open file (an "open file description" lock). So the lock is
//! released as soon as the holder's process ends, for any reason. A stopped process keeps its locks.
//!
//! The files in the directory, for a lock whose name is escaped to `NAME`:
//!
//! | file | content |
//! |---|---|
//! | `format` | `leasehold-file 1`: the version of everything below |
//! | `locks/NAME.lock` | never renamed or removed; the holder has byte 0 and the byte at offset *token* locked |
//! | `locks/NAME.json` | the current or last holder, and the token; replaced as a whole, by rename |
//! | `locks/NAME.tmp` | the next record while it is being written |
//! | `locks/NAME.wait/` | one file for each waiter, named in order of arrival, locked while it waits |
//!
//! Supports 64-bit Linux and Android on a local file system. On other systems
//! [`FileBackend::open`] returns [`Unsupported`](leasehold_core::ErrorKind::Unsupported).
//!
//! With `wire=flock` ([`FlockBackend`]) a lock is any file that `flock(1)` locks, and the only files of ours are the
//! records in `.leasehold-flock`, of the form of `NAME.json`.
//!
//! What follows is the page of the store in the documentation; its links to other pages work in the repository.

#![cfg_attr(all(doc, not(doctest)), doc = include_str!("../docs.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"))]
mod backend;
#[cfg(not(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64")))]
#[path = "unsupported.rs"]
mod backend;
mod connect;
#[cfg(all(feature = "fuzzing", target_os = "linux", target_pointer_width = "64"))]
#[doc(hidden)]
pub mod fuzzing;

pub use backend::{FileBackend, FlockBackend};
pub use connect::{connect, connect_with_wire, diagnose, names_a_wire};
