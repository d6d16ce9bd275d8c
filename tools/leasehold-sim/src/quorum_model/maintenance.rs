//! How often people may do what to the nodes.

/// How often each may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Maintenance {
    /// The nodes were never set up.
    pub fresh: bool,
    /// `quorum init`. No run lets all nodes forget: that looks like a first start, and the
    /// operator's word is all there is.
    pub inits: u8,
    /// `quorum init --after-loss`.
    pub after_loss: u8,
    /// A lease is ended by force.
    pub forces: u8,
    /// `forget` removes the record of a free lock from a node.
    pub removals: u8,
    /// A node loses its data, and its process goes on.
    pub flushes: u8,
    /// A node starts again with the data of an earlier moment.
    pub returns: u8,
    /// A node gets the data of an earlier moment, and keeps its process id: what nothing notices.
    pub rollbacks: u8,
    /// Fewer states: an operator asks all nodes in one step, and admits them in one step. It writes its markers
    /// one by one. Nodes forget, and data are kept for later, only while no message is on its way.
    pub coarse: bool,
}

impl Maintenance {
    /// None of it.
    pub const NONE: Self = Self {
        fresh: false,
        inits: 0,
        after_loss: 0,
        forces: 0,
        removals: 0,
        flushes: 0,
        returns: 0,
        rollbacks: 0,
        coarse: false,
    };
}
