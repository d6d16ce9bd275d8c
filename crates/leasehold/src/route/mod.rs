//! Routing: which instance does the work of a key, and a lock for the moments when two disagree.
//!
//! When all requests of one key go to one instance, they meet in its memory: waiting, caching and
//! batching cost no call. [`Members`] says which instance that is, the same on every instance that
//! has the same list, and moves few keys when the list changes. It is no lock. While a change goes
//! round, instances have different lists, and two take the same key for theirs; a paused one goes
//! on with the old list for as long as the pause lasts. So the owner takes the key's lock too,
//! through a [`Router`]: mostly free and near, and in those moments what keeps the two apart.
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
//!         Routed::NotMine { owner } => forward(&owner).await, // no lock was taken
//!     }
//! }
//!
//! router.update(Members::new(["app-1", "app-2"])?); // app-3 has left
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! Where the list comes from is the program's: a configuration, a service registry, DNS. What to do
//! when the owner does not answer, figures, and how other languages compute the same owner, are in
//! the repository's `docs/routing.md`.

mod hash;
mod members;
#[cfg(test)]
mod members_tests;
mod router;
#[cfg(test)]
mod router_tests;

pub use members::{Members, MembersBuilder};
pub use router::{Routed, Router};
