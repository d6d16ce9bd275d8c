//! What reaches a client of the simulator.

use leasehold_proto::AttemptId;
use leasehold_proto::quorum::{NodeReply, Request, TaskReply};

/// Something on its way to a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parcel {
    /// A node's reply to an attempt.
    Reply(AttemptId, Request, NodeReply),
    /// A node's reply to an admission.
    Done(usize, u32, TaskReply),
    /// The resource has answered.
    Written,
    /// The lock is free.
    Free,
}
