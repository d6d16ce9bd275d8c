//! Errors of a quorum: what the nodes said, and what a person can do about it.

use std::time::Duration;

use leasehold_proto::Now;
use leasehold_proto::quorum::{Attempt, Member, Outlook, Refusal, majority};

use super::members::{advice, describe};
use super::steward::Steward;
use crate::{Error, ErrorKind};

/// Too few nodes have voted for an attempt; `what` they have done says how many. Names those that
/// have not, and why; those that have not answered only if they have had their time, the `limit`.
pub(super) fn unavailable(
    now: Now,
    machine: &Attempt,
    limit: Option<Duration>,
    what: &str,
    steward: &Steward,
) -> Error {
    let refused =
        machine.refusals().map(|(node, refusal)| (node, reason(now, node, refusal, steward)));
    let mut reasons: Vec<(usize, String)> = refused.collect();
    if let Some(limit) = limit {
        let silent = format!("did not answer in {limit:?}");
        reasons.extend(machine.silent().map(|node| (node, silent.clone())));
    }
    if let Some(max_ttl) = steward.max_ttl().filter(|max_ttl| machine.ttl() > *max_ttl) {
        return ttl_too_long(machine.ttl(), max_ttl);
    }
    reasons.sort();
    let all = machine.nodes();
    let mut message = format!("{what} of {all} nodes, and it takes {}", majority(all));
    for (number, (node, reason)) in reasons.iter().enumerate() {
        message += if number == 0 { ": " } else { ", " };
        message += &format!("node {} {reason}", steward.place(*node));
    }
    if let Some(advice) = advice(steward.outlook(now)) {
        message += "; ";
        message += &advice;
    }
    Error::new(ErrorKind::Unavailable, message)
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

/// Why a node has refused.
fn reason(now: Now, node: usize, refusal: Refusal, steward: &Steward) -> String {
    match (refusal, steward.member(now, node)) {
        (
            Refusal::NotAdmitted | Refusal::Unfit,
            member @ (Member::Waiting(_) | Member::Twin(_)),
        )
        | (Refusal::Unfit, member @ Member::Unknown) => describe(member, |of| steward.place(of)),
        (refusal, _) => format!("refused: {refusal}"),
    }
}

/// So many nodes have forgotten that only a person can help.
pub(super) fn forgotten() -> Error {
    Error::new(ErrorKind::Refused, advice(Outlook::Forgotten).unwrap_or_default())
}

pub(super) fn ttl_too_long(ttl: Duration, max_ttl: Duration) -> Error {
    let message = format!(
        "ttl: {ttl:?} is more than the {max_ttl:?} that these nodes grant; ask for less, or set \
         them up with more (`leasehold quorum init --max-ttl`)"
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
