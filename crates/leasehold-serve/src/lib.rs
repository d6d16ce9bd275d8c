//! A dashboard of distributed locks, and an HTTP API to hold them from any language.
//!
//! The command `leasehold serve` is this library. `docs/serve.md` in the repository describes the
//! pages, the API and the safety rules.
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> leasehold::Result<()> {
//! use leasehold_serve::{Server, Settings, StoreSetting};
//!
//! let store = StoreSetting { name: "main".into(), url: "redis://127.0.0.1".into() };
//! let server = Server::bind(Settings::new(vec![store])).await?;
//! println!("listening on {}", server.place());
//! server.run(std::future::pending()).await;
//! # Ok(()) }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod api;
mod app;
mod asked;
mod audit;
mod bodies;
mod changes;
mod duration;
mod forcing;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod granting;
mod history;
mod keeper;
mod leases;
mod listen;
mod listing;
mod metrics;
mod moment;
mod noted;
mod pages;
mod params;
mod path;
mod problem;
mod repeats;
mod safety;
mod scan;
mod secret;
mod server;
mod sessions;
mod settings;
mod show;
mod silence;
mod slots;
mod store;
mod text;
mod threads;
mod tls;
mod tokens;
mod viewing;
mod watching;

pub use server::Server;
pub use settings::{Limits, Listen, Settings, StoreSetting};
pub use threads::threads;
