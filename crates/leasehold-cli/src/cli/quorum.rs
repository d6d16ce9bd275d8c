//! The command line of `quorum`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::duration;

/// `leasehold quorum`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QuorumCommand {
    /// Let the nodes vote: at their first start, or after too many have lost their data
    ///
    /// Nodes that may vote already do not change. A first start needs an answer of every node; with
    /// --after-loss a node that does not answer is left out, and joins by itself later.
    Init(QuorumInitArgs),
    /// Show the state of each node; exits with 0 if locks can be acquired, 69 if not, or if a
    /// client would refuse to connect: a node that cannot take part, the same server twice
    ///
    /// It asks the nodes as every client does that connects: a node that has lost data begins to
    /// wait.
    Status(QuorumStatusArgs),
}

/// `leasehold quorum init`.
#[derive(Args, Clone, Debug)]
pub(crate) struct QuorumInitArgs {
    /// Most nodes have lost their data: wait until no lease can be left, then start tokens at the
    /// wall clock. Without it you state that no client holds a lock
    #[arg(long)]
    pub(crate) after_loss: bool,

    /// The longest ttl that the nodes will grant, and how long a node that may have lost leases
    /// cannot vote [default: max-ttl of the URL, or 60s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_ttl, allow_hyphen_values = true)]
    pub(crate) max_ttl: Option<Duration>,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// `leasehold quorum status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct QuorumStatusArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
