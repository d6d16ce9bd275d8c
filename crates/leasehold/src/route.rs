//! Routing: selects the instance that does the work of a key, with a lock for the time in which two
//! instances disagree.
//!
//! If all requests for a key go to one instance, waiting, caching and batching happen in its memory
//! and need no remote call. [`Members`] computes that instance. The result is the same on every
//! instance with the same list, and few keys move when the list changes.
//!
//! Routing is not a lock. While a change of the list is distributed, instances have different
//! lists, and two instances may consider themselves the owner of one key. A paused instance uses
//! its old list for as long as the pause lasts. So the owner also acquires the key's lock, through
//! a [`Router`]. The lock is usually free, and it excludes the second instance when two disagree.
//!
//! ```
//! # async fn forward(_to: &str) {}
//! # #[tokio::main] async fn main() -> leasehold::Result<()> {
//! use leasehold::route::{Members, Routed, Router};
//!
//! let client = leasehold::connect("memory:").await?;
//! let router = Router::new("app-2", Members::new(["app-1", "app-2", "app-3"])?)?;
//!
//! for order in ["orders/1", "orders/2", "orders/3"] {
//!     match router.acquire(&client.lock(order)).await? {
//!         Routed::Mine(guard) => println!("working, token {}", guard.token()), // an ordinary guard
//!         Routed::NotMine { owner } => forward(&owner).await, // no lock was acquired
//!         other => println!("unknown result: {other:?}"),     // of a later version
//!     }
//! }
//!
//! router.update(Members::new(["app-1", "app-2"])?); // app-3 has left
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! The program supplies the list: from a configuration, a service registry or DNS. The repository's
//! `docs/routing.md` describes what to do if the owner does not answer, has measurements, and
//! describes how other languages compute the same owner.

mod hash;
mod members;
#[cfg(test)]
mod members_tests;
mod router;
#[cfg(test)]
mod router_tests;

pub use members::{Members, MembersBuilder};
pub use router::{Routed, Router};
