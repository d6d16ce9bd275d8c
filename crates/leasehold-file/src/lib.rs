//! The embedded backend of Leasehold: a directory of files on one machine, no server.
//!
//! A lock is held with the kernel's own lock on an open file (an "open file description" lock),
//! so it ends with the process that holds it, at once, however that process ends. A process that
//! is stopped keeps its locks.
//!
//! In the directory, for a lock whose name is escaped to `NAME`:
//!
//! | file | what it is |
//! |---|---|
//! | `format` | `leasehold-file 1`: the version of everything below |
//! | `locks/NAME.lock` | never renamed or removed; the holder has byte 0 and the byte at offset *token* locked |
//! | `locks/NAME.json` | who holds it, or held it last, and the token; replaced whole, by rename |
//! | `locks/NAME.tmp` | the next record while it is being written |
//! | `locks/NAME.wait/` | one file for each waiter, named in order of arrival, locked while it waits |
//!
//! Works on Linux and Android, 64 bit, on a local file system. Elsewhere [`FileBackend::open`]
//! answers [`Unsupported`](leasehold_core::ErrorKind::Unsupported).

#[cfg(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"))]
mod backend;
#[cfg(not(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64")))]
#[path = "elsewhere.rs"]
mod backend;
mod connect;

pub use backend::FileBackend;
pub use connect::{connect, examine};
