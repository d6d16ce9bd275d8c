//! The client half of Leasehold, shared by all engines.
//!
//! Programs use the facade crate `leasehold`; engines implement [`backend::Backend`].

mod acquire;
mod ask;
pub mod backend;
mod buckets;
mod certificate;
mod client;
pub mod clock;
pub mod doctor;
mod ending;
mod error;
pub mod filesystem;
mod guard;
mod hold;
mod late;
mod line;
mod lock;
pub mod memory;
mod name;
mod options;
mod owner;
mod pass;
pub mod quorum;
pub mod random;
mod renewal;
mod shared;
mod stale;
mod taken;
pub mod telemetry;
mod turns;
mod url;

pub use certificate::certificate_fault;
pub use client::{Client, ClientBuilder};
pub use error::{Error, ErrorKind, Result, Retry};
pub use guard::Guard;
pub use leasehold_proto as proto;
pub use leasehold_proto::{
    AttemptId, ClientId, Deadline, LossReason, NotAToken, Now, Token, TokenBlock,
};
pub use lock::Lock;
pub use name::Name;
pub use options::OnLoss;
pub use owner::Owner;
pub use shared::Usage;
pub use stale::{Fenced, Stale};
pub use url::{StoreUrl, TlsFiles};
