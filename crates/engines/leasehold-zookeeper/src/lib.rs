//! The ZooKeeper engine of Leasehold: ephemeral sequential nodes in Curator's layout, each waiter with a watch on the
//! node before its own; with the option `wire`, the locks of Curator or kazoo themselves.
//!
//! Programs use it through the crate `leasehold` with the feature `zookeeper`. To use this crate alone:
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> leasehold_core::Result<()> {
//! use leasehold_core::{Client, StoreUrl};
//!
//! let url = StoreUrl::parse("zookeeper://one:2181,two:2181,three:2181")?;
//! let client = Client::new(std::sync::Arc::new(leasehold_zookeeper::connect(url).await?))?;
//! let guard = client.lock("orders/555").acquire().await?;
//! println!("holding with token {}", guard.token());
//! guard.release().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! It needs ZooKeeper 3.5.3 or newer. [`connect`] lists the URLs; `zookeepers:` needs the feature `tls`.
//!
//! | what happens | what follows |
//! |---|---|
//! | the holder crashes | the next waiter acquires when the servers end the holder's session (30 s by default) |
//! | the holder loses its connection | its guard is invalid after half of the session timeout, before the servers end the session |
//! | a release | the next waiter's watch fires; the others are not notified |
//! | a server fails | the client continues its session on another server |
//! | only a minority of the servers is left | no client acquires, and holders lose their locks before their deadline |
//!
//! - A fencing token is the transaction number (zxid) of the holder's node, so it grows without any clock.
//! - Waiters acquire in the order of their nodes.
//! - [`diagnose`] finds wrong settings of an ensemble, [`forget`] removes the empty nodes of locks
//!   that no client uses.
//!
//! # Requests
//!
//! | operation | requests | writes to the disks of a majority |
//! |---|---|---|
//! | acquire a free lock | create and list, sent together | 1 |
//! | first use of a name, or after its node was removed | 2 more | 1 |
//! | try | sync and list, sent together; if the lock is free, as acquire | 0 or 1 |
//! | wait | create, list, then a watch; asking again costs nothing while the watch exists | 1 |
//! | hand-off | delete, the watch that fires, list; a transaction if the session was not verified recently | 1 or 2 |
//! | release | delete | 1 |
//! | renew up to 256 leases | 1 transaction every third of the ttl | 1 |
//!
//! The answer to a list has some 60 bytes for each node in the queue.
//!
//! The client library (`zookeeper-client` 0.11) does not turn off Nagle's algorithm, and does not accept a stream that the
//! program has opened. Each answer carries the acknowledgement of its request, so no request waits for a delayed
//! acknowledgement. If a server takes longer than 40 ms to answer, the next requests of the same client wait for 40 ms at
//! most.
//!
//! The repository's `docs/zookeeper.md` has the options, the guarantees, the limits and the nodes.
//!
//! What follows is the page of the store in the documentation; its links to other pages work in the repository.

#![cfg_attr(all(doc, not(doctest)), doc = include_str!("../docs.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod address;
mod asking;
mod attempts;
mod backend;
mod connect;
mod connect_failure;
mod convert;
mod doctor;
mod error;
mod forget;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod kind;
mod latch;
mod latch_value;
mod limit;
mod node_data;
mod observers;
mod path;
mod permits;
mod queue;
mod record;
mod release;
mod renew;
mod semaphore_record;
mod semaphore_status;
mod server_time;
mod session;
mod session_keeper;
mod session_permits;
mod session_values;
mod status;
mod store;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod turn;
mod wire;
mod writer_watch;

pub use backend::ZooKeeperBackend;
pub use connect::{connect, connect_with_wire, names_a_wire};
pub use doctor::diagnose;
pub use forget::forget;
pub use wire::WireBackend;
