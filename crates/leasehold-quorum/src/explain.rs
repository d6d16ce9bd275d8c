//! The errors of a quorum: what the nodes replied, and what the user can do about it.

use std::time::Duration;

use leasehold_proto::Now;
use leasehold_proto::quorum::{Attempt, Member, NodeReply, Outlook, Refusal, Tally, majority};

use super::admission_driver::AdmissionDriver;
use super::membership::{advice, change_max_ttl, describe};
use leasehold_core::{Error, ErrorKind};

/// The replies of the nodes to an attempt, and what is known of them.
pub(super) struct Report<'a> {
    pub(super) now: Now,
    pub(super) machine: &'a Attempt,
    /// Replies that the machine does not count any more.
    pub(super) later: &'a [(usize, NodeReply)],
    /// How long the client waited for each node; `None` while it still waits.
    pub(super) had_time: Option<Duration>,
    pub(super) admission: &'a AdmissionDriver,
    /// Returns why a node did nothing when it was last asked.
    pub(super) trouble: &'a dyn Fn(usize) -> String,
}

/// Explains that too few nodes voted for an attempt: how many did, which others did not and why,
/// and what helps.
pub(super) fn denied(report: &Report<'_>, tally: Tally) -> Error {
    let Report { machine, later, admission, .. } = report;
    if let Some(max_ttl) = admission.max_ttl().filter(|max_ttl| machine.ttl() > *max_ttl) {
        return ttl_too_long(machine.ttl(), max_ttl, admission);
    }
    // The state of each node is the same, and says nothing more.
    let outlook = admission.outlook(report.now);
    if let Some(advice) = advice(outlook).filter(|_| outlook == Outlook::NotSetUp) {
        return Error::new(ErrorKind::Unavailable, advice);
    }
    let count = |is: fn(&NodeReply) -> bool| later.iter().filter(|(_, reply)| is(reply)).count();
    let granted = tally.granted + count(|reply| matches!(reply, NodeReply::Granted(_)));
    let busy = tally.busy + count(|reply| matches!(reply, NodeReply::Busy { .. }));
    let (all, enough) = (machine.nodes(), majority(machine.nodes()));
    let mut message = format!("granted by {granted} of {all} nodes, {enough} needed");
    if busy > 0 {
        message += &format!(" (another client holds it on {busy})");
    }
    message += &report.reasons("did not answer");
    match advice(outlook) {
        Some(advice) => message += &format!("; {advice}"),
        None => {
            let missing = enough.saturating_sub(granted + busy);
            message += &format!("; locks can be acquired again when {missing} of these can vote");
        }
    }
    Error::new(ErrorKind::Unavailable, message)
}

/// Explains that too few nodes renewed a lease; names the others that replied or timed out.
pub(super) fn unrenewed(report: &Report<'_>) -> Error {
    let Report { now, machine, admission, .. } = report;
    let (all, enough) = (machine.nodes(), majority(machine.nodes()));
    let reasons = report.reasons("has not answered yet");
    let mut message = format!("renewed by too few of {all} nodes, {enough} needed{reasons}");
    if let Some(advice) = advice(admission.outlook(*now)) {
        message += &format!("; {advice}");
    }
    Error::new(ErrorKind::Unavailable, message)
}

impl Report<'_> {
    /// Lists the nodes that did not do what they were asked, with the reason. `silent` is the text
    /// for a node that has not answered and has not timed out.
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
                (Some(NodeReply::Refused(refusal)), _) => self.why(node, refusal),
                (Some(NodeReply::Granted(_) | NodeReply::Busy { .. } | NodeReply::Ended), _) => {
                    continue;
                }
                (_, Some(limit)) => format!("did not answer in {limit:?}"),
                (_, None) => silent.to_owned(),
            };
            reasons.push((node, reason));
        }
        reasons.sort();
        let mut text = String::new();
        for (number, (node, reason)) in reasons.iter().enumerate() {
            text += if number == 0 { ": " } else { ", " };
            text += &format!("node {} {reason}", self.admission.place(*node));
        }
        text
    }

    /// Returns why a node refused.
    fn why(&self, node: usize, refusal: Refusal) -> String {
        match (refusal, self.admission.member(self.now, node)) {
            (
                Refusal::NotAdmitted | Refusal::Unfit,
                member @ (Member::Waiting(_) | Member::Twin(_)),
            ) => describe(member, |of| self.admission.place(of)),
            // It did not answer which process it is; the reason may be known.
            (Refusal::Unfit, member @ Member::Unknown) => {
                let trouble = self.admission.trouble(node);
                trouble.unwrap_or_else(|| describe(member, |of| self.admission.place(of)))
            }
            (Refusal::Unfit, _) => (self.trouble)(node),
            (refusal, _) => format!("refused: {refusal}"),
        }
    }
}

/// The error if too few nodes answered, with their reasons.
pub(super) fn too_few(answered: usize, all: usize, reasons: &[String]) -> Error {
    let (enough, reasons) = (majority(all), reasons.join(", "));
    let message = format!("{answered} of {all} nodes answer, {enough} must: {reasons}");
    Error::new(ErrorKind::Unavailable, message)
}

/// The error if too few nodes confirmed a release; names the others.
pub(super) fn unreleased(machine: &Attempt, admission: &AdmissionDriver) -> Error {
    let places: Vec<String> = machine.unreleased().map(|node| admission.place(node)).collect();
    let message = format!(
        "{} of {} nodes have not confirmed the release in time ({}); the client retries, and the \
         lease expires there with its ttl",
        places.len(),
        machine.nodes(),
        places.join(", ")
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// The error if so many nodes lost their data that only an operator can help.
pub(super) fn forgotten(outlook: Outlook) -> Error {
    Error::new(ErrorKind::Refused, advice(outlook).unwrap_or_default())
}

pub(super) fn ttl_too_long(ttl: Duration, max_ttl: Duration, admission: &AdmissionDriver) -> Error {
    let message = format!(
        "ttl: {ttl:?} is more than max-ttl={max_ttl:?}, the longest that these nodes grant; use at most {max_ttl:?} (`--ttl {max_ttl:?}` \
         of the command), or {}",
        change_max_ttl(max_ttl, &admission.marker_key())
    );
    Error::new(ErrorKind::Invalid, message)
}

/// The error if a majority granted the lock too late.
pub(super) fn too_late(asked: Now, now: Now) -> Error {
    let took = Duration::from_nanos(now.steady_ns.saturating_sub(asked.steady_ns));
    let message = format!(
        "a majority granted it only after {took:?}, when the lease had expired; use a longer ttl"
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// The error if the task that asks the nodes has ended.
pub(super) fn driver_gone() -> Error {
    let message = "quorum: the runtime of the client has ended, or no client was created";
    Error::new(ErrorKind::Unavailable, message)
}
