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
    Node(usize, String),
    /// Something happens to a client.
    Client(usize, String),
    /// Two clients take themselves for the holder.
    Overlap(usize, usize),
}
