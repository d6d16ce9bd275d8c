//! Errors of a quorum: what the nodes said, and what a person can do about it.

use std::time::Duration;

use leasehold_proto::Now;
use leasehold_proto::quorum::{Attempt, Member, Outlook, Refusal, Reply, Tally, majority};

use super::members::{advice, change_max_ttl, describe};
use super::steward::Steward;
use crate::{Error, ErrorKind};

/// What the nodes have said to an attempt, and what is known of them.
pub(super) struct Report<'a> {
    pub(super) now: Now,
    pub(super) machine: &'a Attempt,
    /// What the machine does not count any more.
    pub(super) later: &'a [(usize, Reply)],
    /// How long each node was waited for; `None` while that is not over.
    pub(super) had_time: Option<Duration>,
    pub(super) steward: &'a Steward,
    /// Why a node could do nothing when it was last asked.
    pub(super) trouble: &'a dyn Fn(usize) -> String,
}

/// Too few nodes have voted for an attempt. Says how many have, names the others with the reason,
/// and says what helps.
pub(super) fn denied(report: &Report<'_>, tally: Tally) -> Error {
    let Report { machine, later, steward, .. } = report;
    if let Some(max_ttl) = steward.max_ttl().filter(|max_ttl| machine.ttl() > *max_ttl) {
        return ttl_too_long(machine.ttl(), max_ttl);
    }
    let count = |is: fn(&Reply) -> bool| later.iter().filter(|(_, reply)| is(reply)).count();
    let granted = tally.granted + count(|reply| matches!(reply, Reply::Granted(_)));
    let busy = tally.busy + count(|reply| matches!(reply, Reply::Busy { .. }));
    let (all, enough) = (machine.nodes(), majority(machine.nodes()));
    let mut message = format!("granted by {granted} of {all} nodes, and it takes {enough}");
    if busy > 0 {
        let have = if busy == 1 { "has" } else { "have" };
        message += &format!(" ({busy} {have} given it to somebody else)");
    }
    message += &report.reasons("did not answer");
    match advice(steward.outlook(report.now)) {
        Some(advice) => message += &format!("; {advice}"),
        None => {
            let missing = enough.saturating_sub(granted + busy);
            message += &format!("; it goes on by itself once {missing} of these can vote again");
        }
    }
    Error::new(ErrorKind::Unavailable, message)
}

/// Too few nodes have renewed a lease; names the others that were heard, or had their time.
pub(super) fn unrenewed(report: &Report<'_>) -> Error {
    let Report { now, machine, steward, .. } = report;
    let (all, enough) = (machine.nodes(), majority(machine.nodes()));
    let reasons = report.reasons("has not answered yet");
    let mut message = format!("renewed by too few of {all} nodes, and it takes {enough}{reasons}");
    if let Some(advice) = advice(steward.outlook(*now)) {
        message += &format!("; {advice}");
    }
    Error::new(ErrorKind::Unavailable, message)
}

impl Report<'_> {
    /// Of each node that has not done what it was asked for why it has not; of one that was not heard
    /// though it had no time left that it is `silent`.
    fn reasons(&self, silent: &str) -> String {
        let heard = |node: usize| {
            let reply = self.later.iter().find(|(from, _)| *from == node);
            reply.map(|(_, reply)| *reply)
        };
        let refusals =
            self.machine.refusals().map(|(node, refusal)| (node, self.why(node, refusal)));
        let mut reasons: Vec<(usize, String)> = refusals.collect();
        for node in self.machine.silent() {
            let reason = match (heard(node), self.had_time) {
                (Some(Reply::Refused(refusal)), _) => self.why(node, refusal),
                (Some(Reply::Granted(_) | Reply::Busy { .. } | Reply::Ended), _) => continue,
                (_, Some(limit)) => format!("did not answer in {limit:?}"),
                (_, None) => silent.to_owned(),
            };
            reasons.push((node, reason));
        }
        reasons.sort();
        let mut text = String::new();
        for (number, (node, reason)) in reasons.iter().enumerate() {
            text += if number == 0 { ": " } else { ", " };
            text += &format!("node {} {reason}", self.steward.place(*node));
        }
        text
    }

    /// Why a node has refused.
    fn why(&self, node: usize, refusal: Refusal) -> String {
        match (refusal, self.steward.member(self.now, node)) {
            (
                Refusal::NotAdmitted | Refusal::Unfit,
                member @ (Member::Waiting(_) | Member::Twin(_)),
            ) => describe(member, |of| self.steward.place(of)),
            // It was asked who it is, and has not said so: it may be known why.
            (Refusal::Unfit, member @ Member::Unknown) => {
                let trouble = self.steward.trouble(node);
                trouble.unwrap_or_else(|| describe(member, |of| self.steward.place(of)))
            }
            (Refusal::Unfit, _) => (self.trouble)(node),
            (refusal, _) => format!("refused: {refusal}"),
        }
    }
}

/// Too few nodes have said what was asked, for these reasons.
pub(super) fn too_few(answered: usize, all: usize, reasons: &[String]) -> Error {
    let (enough, reasons) = (majority(all), reasons.join(", "));
    let message = format!("{answered} of {all} nodes answer, {enough} must: {reasons}");
    Error::new(ErrorKind::Unavailable, message)
}

/// Too few nodes have said that they released it; names the others.
pub(super) fn unreleased(machine: &Attempt, steward: &Steward) -> Error {
    let places: Vec<String> = machine.unreleased().map(|node| steward.place(node)).collect();
    let message = format!(
        "{} of {} nodes have not said in time that they released it ({}); they go on being asked, \
         and the lease ends there with its ttl",
        places.len(),
        machine.nodes(),
        places.join(", ")
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// So many nodes have forgotten that only a person can help.
pub(super) fn forgotten(outlook: Outlook) -> Error {
    Error::new(ErrorKind::Refused, advice(outlook).unwrap_or_default())
}

pub(super) fn ttl_too_long(ttl: Duration, max_ttl: Duration) -> Error {
    let message = format!(
        "ttl: {ttl:?} is more than the {max_ttl:?} that these nodes grant; ask for less, or {}",
        change_max_ttl(max_ttl)
    );
    Error::new(ErrorKind::Invalid, message)
}

/// A majority granted it, but too late.
pub(super) fn too_late(asked: Now, now: Now) -> Error {
    let took = Duration::from_nanos(now.steady_ns.saturating_sub(asked.steady_ns));
    let message = format!("a majority granted it, but only after {took:?}, when it had ended");
    Error::new(ErrorKind::Unavailable, message)
}

/// Nobody is there to ask the nodes.
pub(super) fn driver_gone() -> Error {
    let message = "quorum: the runtime that asks the nodes has ended, or the client was never made";
    Error::new(ErrorKind::Unavailable, message)
}
