//! What is watched in a run, one promise a file.

mod evidence;
mod exclusion;
mod fence;
mod loss;
mod orphan;
mod tokens;
mod waiter;

use leasehold_proto::{AttemptId, Token};

use super::Plan;
use super::resource::Resource;

/// A promise that was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    /// Two clients took themselves for the holder.
    Exclusion,
    /// A client was told that it has the lock, or has it still, without a majority.
    Evidence,
    /// A loss was told after the lease's end.
    Loss,
    /// A token was used twice, or was not above one held before its attempt began.
    Tokens,
    /// A stale write got through a fence, or an update behind it was lost.
    Fence,
    /// A lease without a client outlived its ttl.
    Orphan,
    /// After the end of the faults a client waited without success.
    Waiter,
}

/// What was seen in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How often the lock was asked for.
    pub asks: u64,
    /// How often the lock was had.
    pub holds: u64,
    /// How often a client acquired the lock while another believed to hold it.
    pub overlaps: u64,
    /// How often a token was used twice or came out of order.
    pub inversions: u64,
    /// Updates of the resource without a fence that were lost.
    pub lost_plain: u64,
    /// Updates of the resource with a fence that were lost.
    pub lost_fenced: u64,
    /// Stale writes that got through the fence.
    pub stale: u64,
    /// Writes that the fence refused.
    pub refused: u64,
    /// The longest time without a holder while a client wanted the lock, in nanoseconds.
    pub gap: u64,
    /// The promises that were not kept.
    pub broken: Vec<Broken>,
}

#[derive(Debug)]
pub(super) struct Watch {
    exclusion: exclusion::Exclusion,
    evidence: evidence::Evidence,
    loss: loss::Loss,
    tokens: tokens::Tokens,
    waiter: waiter::Waiter,
    asks: u64,
    holds: u64,
}

impl Watch {
    pub(super) fn new(plan: &Plan, clients: usize) -> Self {
        Self {
            exclusion: exclusion::Exclusion::default(),
            evidence: evidence::Evidence::new(plan),
            loss: loss::Loss::default(),
            tokens: tokens::Tokens::new(plan, clients),
            waiter: waiter::Waiter::new(plan, clients),
            asks: 0,
            holds: 0,
        }
    }

    pub(super) fn asks(&mut self, client: usize, time: u64) {
        self.asks += 1;
        self.tokens.asks(client);
        self.waiter.asks(client, time);
    }

    pub(super) fn held(
        &mut self,
        client: usize,
        time: u64,
        attempt: AttemptId,
        token: Token,
        others: &[usize],
        leases: usize,
    ) {
        self.holds += 1;
        self.exclusion.held(others);
        self.evidence.counts(time, leases);
        self.tokens.held(client, attempt, token);
        self.waiter.held(client, time);
    }

    pub(super) fn renewed(&mut self, time: u64, token: Token, leases: usize) {
        self.evidence.counts(time, leases);
        self.evidence.overtaken(token, self.tokens.highest());
    }

    pub(super) fn lost(&mut self, in_time: bool) {
        self.loss.told(in_time);
    }

    pub(super) fn released(&mut self, client: usize, time: u64) {
        self.waiter.released(client, time);
    }

    /// A node has forgotten leases, or takes them for over.
    pub(super) fn forgets(&mut self, time: u64) {
        self.evidence.forgets(time);
    }

    pub(super) fn finish(self, plan: &Plan, resources: &[Resource; 2], orphans: usize) -> Seen {
        let [plain, fenced] = resources;
        let gap = self.waiter.gap(plan.end);
        let verdicts = [
            (Broken::Exclusion, self.exclusion.is_broken(plan)),
            (Broken::Evidence, self.evidence.is_broken(plan)),
            (Broken::Loss, self.loss.is_broken()),
            (Broken::Tokens, self.tokens.is_broken(plan)),
            (Broken::Fence, fence::is_broken(plan, fenced)),
            (Broken::Orphan, orphan::is_broken(orphans)),
            (Broken::Waiter, self.waiter.is_broken(plan)),
        ];
        Seen {
            asks: self.asks,
            holds: self.holds,
            overlaps: self.exclusion.overlaps,
            inversions: if plan.setup.tokens() { self.tokens.wrong } else { 0 },
            lost_plain: plain.lost(),
            lost_fenced: fenced.lost(),
            stale: fenced.stale,
            refused: fenced.refused,
            gap,
            broken: verdicts.into_iter().filter_map(|(one, is)| is.then_some(one)).collect(),
        }
    }
}
