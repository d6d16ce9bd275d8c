//! What happened in a run, for people to see.

/// One line of a run's story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// True time.
    pub time: u64,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A client asked for the lock.
    Asks(usize),
    /// A client was told that it has the lock.
    Holds(usize, Option<u64>),
    /// Until when the lease of a client that holds the lock is valid by its clock.
    ValidUntil(usize, u64),
    /// A client does not believe any more that it has the lock: it gave it back.
    Releases(usize),
    /// The same, because it was told of a loss.
    Loses(usize),
    /// The same, because it looked at the clock.
    NotValid(usize),
    /// A client received that the lock is not available now.
    Denied(usize),
    /// A client's write came to the resource: without and with a fence it was taken.
    Writes(usize, bool, bool),
    /// A client's random value comes to the resource that compares such values.
    Claims(usize),
    /// A client's write came to that resource: whether it was taken.
    ByValue(usize, bool),
    /// A client stops.
    Stops(usize),
    /// It goes on.
    GoesOn(usize),
    /// It is gone.
    Dies(usize),
    /// A lease is on a node from now on, of a client.
    Lease(usize, Option<usize>),
    /// A client listens for a release.
    Listens(usize),
    /// A node tells so many who wait that the lock is free.
    Tells(usize, usize),
    /// Something happens to a node.
    Node(usize, NodeChange),
    /// Something happens to a client.
    Client(usize, ClientChange),
    /// Two clients take themselves for the holder.
    Overlap(usize, usize),
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// Its clock jumps by so many seconds.
    ClockJumps(i64),
    /// It cannot be reached for some time.
    Unreachable,
    /// It starts again without data.
    RestartsEmpty,
    /// Its replica takes over, with what it has heard of.
    ReplicaTakesOver,
    /// It starts again with its data.
    RestartsWithData,
    /// The same process goes on with older data.
    ResumesSnapshot,
    /// It starts again with older data.
    ReturnsWithOlderData,
    /// An operator runs `quorum init`.
    Init,
    /// An operator runs `quorum init --after-loss`.
    InitAfterLoss,
}

/// What happens to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientChange {
    /// Its wall clock jumps.
    WallClockJumps,
    /// It cannot reach this node for some time.
    CutOff(usize),
    /// What this node answers to it is lost for some time.
    RepliesLost(usize),
    /// An operator released its lease by force.
    Forced,
    /// Its request had no answer, and it sends it again.
    Repeats,
    /// It finds its own value in the lock: the request before was granted.
    OwnValue,
    /// It finds another's value in the lock.
    OthersValue,
    /// It finds the lock taken, and cannot know by whom.
    SomeValue,
}
