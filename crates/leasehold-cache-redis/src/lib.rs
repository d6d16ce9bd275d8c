//! The Redis connection of the Leasehold cache and the related crates.
//!
//! - [`Link`], a connection for commands and scripts. It follows the master that sentinels name,
//!   notices that a server was restarted ([`ServerRun`]), fails at once while Redis is down, and
//!   logs each outage once.
//! - [`invalidation`]: how caches and relays invalidate cache entries.
//! - [`Codec`], and the checks of names and keys that all these crates share.
//! - [`Error`], the error type of all these crates.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod breaker;
mod codec;
mod connection;
mod consumer;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod health;
pub mod invalidation;
mod link;
mod names;
mod server;
mod server_run;

pub use ::redis;
pub use codec::Codec;
pub use connection::Connection;
pub use consumer::{Consumer, ConsumerKind, LOG_TARGET};
pub use error::{BoxError, Error, ErrorKind, Result};
pub use health::{BREAKER_OPEN, Health, is_refusal};
pub use link::Link;
pub use names::{check_key, check_name, draw_token};
pub use server::{Server, ready};
pub use server_run::{RUN_SIZE, ServerRun};
