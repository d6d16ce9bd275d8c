//! The client half of Leasehold, shared by all engines.
//!
//! Programs use the facade crate `leasehold`; engines implement [`backend::Backend`].

pub mod backend;
pub mod clock;
mod error;
mod name;
mod url;

pub use error::{Error, ErrorKind, Result, Retry};
pub use leasehold_proto as proto;
pub use leasehold_proto::{AttemptId, ClientId, Deadline, LossReason, Now, Token, TokenBlock};
pub use name::Name;
pub use url::StoreUrl;
