//! `leasehold serve`: its options.

use std::path::PathBuf;

use clap::Args;
use leasehold_serve::Listen;

use crate::number;

/// `leasehold serve`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// A store to show; repeat it for more. NAME is its name in URLs [default: the store that other
    /// subcommands use, by the name of its scheme]
    #[arg(long, value_name = "[NAME=]URL", value_parser = super::utf8())]
    pub(crate) store: Vec<String>,

    /// The address and port to listen on, or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub(crate) listen: Listen,

    /// A host name by which clients reach the server; repeat it for more. Those of the address are
    /// always allowed
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,

    /// A file of lines ROLE[,ROLE] NAME TOKEN; the roles are read, hold and force. Mode 600
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// The certificate chain, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Allow callers with the role force to end leases by force
    #[arg(long)]
    pub(crate) allow_force_release: bool,

    /// Append forced releases to this file [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_file: Option<PathBuf>,

    /// The most open connections
    #[arg(long, value_name = "N", default_value = "4096", value_parser = number::within::<u32>(1..=100_000))]
    pub(crate) max_connections: u32,

    /// The most leases and waiting requests
    #[arg(long, value_name = "N", default_value = "4096", value_parser = number::within::<u32>(1..=1_000_000))]
    pub(crate) max_holds: u32,

    /// The most leases and waiting requests of one token
    #[arg(long, value_name = "N", default_value = "1024", value_parser = number::within::<u32>(1..=1_000_000))]
    pub(crate) max_holds_per_token: u32,

    /// The most requests that wait for one lock
    #[arg(long, value_name = "N", default_value = "1024", value_parser = number::within::<u32>(1..=1_000_000))]
    pub(crate) max_queue: u32,
}
