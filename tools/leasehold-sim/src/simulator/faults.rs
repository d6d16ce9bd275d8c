//! What goes wrong at a moment of a run.

/// One fault. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A client does nothing for so long: what arrives waits (garbage collection, SIGSTOP).
    Pause {
        /// Which.
        client: usize,
        /// For how long.
        time: u64,
    },
    /// The same for the client that believes to hold the lock.
    PauseHolder {
        /// For how long.
        time: u64,
    },
    /// The same for the next client that asks for the lock, before it receives any reply.
    PauseAsker {
        /// For how long.
        time: u64,
    },
    /// A client is gone, and starts anew after so long.
    Crash {
        /// Which.
        client: usize,
        /// `u64::MAX`: never.
        back: u64,
    },
    /// The same for the client that believes to hold the lock.
    CrashHolder {
        /// After how long it is back.
        back: u64,
    },
    /// A node's clock jumps.
    NodeClock {
        /// Which.
        node: usize,
        /// By how much.
        by: i64,
    },
    /// A client's wall clock jumps.
    ClientClock {
        /// Which.
        client: usize,
        /// By how much.
        by: i64,
    },
    /// A node's clock runs at another rate from the beginning on.
    NodeRate {
        /// Which.
        node: usize,
        /// In millionths.
        ppm: i64,
    },
    /// A node cannot be reached for so long.
    NodeDown {
        /// Which.
        node: usize,
        /// For how long.
        time: u64,
    },
    /// A node is started again, with what its set-up keeps.
    Restart {
        /// Which.
        node: usize,
        /// How long it is away.
        time: u64,
    },
    /// A client cannot reach a node for so long.
    Cut {
        /// Which client.
        client: usize,
        /// Which node.
        node: usize,
        /// For how long.
        time: u64,
    },
    /// What a node answers to a client is lost for so long.
    LoseReplies {
        /// Which client.
        client: usize,
        /// Which node.
        node: usize,
        /// For how long.
        time: u64,
    },
    /// What a client sends to a node takes so much longer.
    Delay {
        /// Which client.
        client: usize,
        /// Which node.
        node: usize,
        /// By how much longer.
        by: u64,
        /// For how long.
        time: u64,
    },
    /// An operator runs `quorum init --after-loss`.
    Operator,
    /// An operator runs `quorum init`, and says by that that no client holds a lock.
    Init,
    /// An operator runs `forget` at each node that can be reached.
    Forget,
    /// An operator ends the holder's lease by `force-release`.
    ForceHolder,
    /// A node's wall clock jumps; its steady clock does not.
    NodeWall {
        /// Which.
        node: usize,
        /// By how much.
        by: i64,
    },
    /// A node's data is copied.
    Save {
        /// Which.
        node: usize,
    },
    /// A node returns with the copy of its data.
    Older {
        /// Which.
        node: usize,
        /// How long it is away.
        time: u64,
        /// As the same process (a machine is resumed from a snapshot), or as another one (a backup is
        /// restored).
        same: bool,
    },
    /// The network is good from now on.
    Calm,
}
