//! The `leasehold` command as people and scripts use it: the real binary on a real directory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests measure time")]

#[cfg(feature = "lab")]
mod articles;
#[cfg(feature = "bench")]
mod bench;
mod blocked;
#[cfg(feature = "cache")]
mod cache;
mod configuration;
mod counter;
mod cron;
mod doctor;
mod elect;
#[cfg(feature = "etcd")]
mod etcd;
mod exit_codes;
mod force_release;
mod formats;
mod inner;
#[cfg(feature = "lab")]
mod lab;
mod language;
mod latch;
mod layout;
mod limit;
mod loss;
mod manual;
mod multi;
mod nesting;
mod options;
mod pipes;
mod quorum;
mod readme;
mod redis;
mod reports;
mod screen;
#[cfg(feature = "serve")]
mod serve;
mod shared;
mod signals;
mod sql;
mod stage;
mod stores;
mod streams;
mod supervisor;
mod support;
mod terminal;
mod waiting;
mod watch;
