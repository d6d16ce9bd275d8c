//! How an operator sets nodes up.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Deadline;
use leasehold_proto::quorum::{Founding, Halt, Member, Outlook, majority};

use super::admission_driver::AdmissionDriver;
use super::fitness::look_at_fitness;
use super::membership::{Membership, change_max_ttl};
use super::node::QuorumNode;
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result};

/// How long to wait for silent nodes when a quorum is set up.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many times the longest ttl a set-up takes at most: one wait before a node votes, one for a
/// node that joins later, and one for nodes that lose their data meanwhile.
const WAITS: u32 = 3;
/// How often an operator gets a progress report.
const TICK: Duration = Duration::from_secs(1);

/// Reads the state of the nodes as every connecting client does. A node without a marker starts its
/// waiting period when it is read.
pub async fn members(
    nodes: Vec<Arc<dyn QuorumNode>>,
    max_ttl: Duration,
    clock: Clock,
) -> Membership {
    let mut admission = AdmissionDriver::new(nodes, max_ttl, None, clock.clone());
    admission.settle().await;
    admission.members(clock.now())
}

/// Sets nodes up: at a first start, or again after too much data was lost.
///
/// `max_ttl` is the longest ttl that they will grant, and how long a node that may have lost leases
/// cannot vote. With [`Founding::AfterLoss`], nodes wait that long first. `progress` gets a report
/// about once a second. If a majority already votes, those nodes do not change, and the others wait
/// until they may join, for any `founding`. If the voting nodes have one longest ttl, the others
/// get it too: a waiting marker with another longest ttl is replaced, and that node waits again.
///
/// Returns when each node votes or does not answer, after at most three times the longest ttl and 3
/// s. A node that keeps losing its data still waits then; it joins when a client has run for longer
/// than the longest ttl.
///
/// Every node is asked about its past before any node is written to.
///
/// # Errors
/// [`ErrorKind::Invalid`] for one server in two places; [`ErrorKind::Refused`] for a node that
/// cannot take part until its settings change. With [`Founding::Vouched`]:
/// [`ErrorKind::Unavailable`] if any node does not answer, and [`ErrorKind::Refused`] if a node has
/// voted before, since this is not a first start. With [`Founding::AfterLoss`]:
/// [`ErrorKind::Unavailable`] if fewer than a majority answer, or if another operator sets the
/// nodes up with another longest ttl until the time limit. After an error that follows from the
/// first answers, no further node votes. If a node changes or stops answering between its answer
/// and its admission, some nodes may already wait or vote; repeat the call.
pub async fn found(
    nodes: Vec<Arc<dyn QuorumNode>>,
    max_ttl: Duration,
    founding: Founding,
    clock: Clock,
    progress: impl FnMut(&Membership),
) -> Result<Membership> {
    look_at_fitness(&nodes, &clock, None).await?;
    let admission = AdmissionDriver::new(nodes, max_ttl, Some(founding), clock.clone());
    run(admission, max_ttl, clock, progress).await
}

/// Sets nodes up as [`found`] does, but only with exactly this `max_ttl`. Refuses if a node keeps
/// another longest ttl:
///
/// - a node that votes;
/// - after a loss, also a node that waits.
///
/// # Errors
/// As [`found`], and [`ErrorKind::Refused`] with the procedure to change the longest ttl; no
/// further node votes then. These nodes may still keep another longest ttl (see
/// [`Membership::unequal_max_ttl`]):
///
/// - a node that another operator sets up between its answer and its admission;
/// - a node that did not answer;
/// - a node that starts again after a loss.
pub async fn found_exactly(
    nodes: Vec<Arc<dyn QuorumNode>>,
    max_ttl: Duration,
    founding: Founding,
    clock: Clock,
    progress: impl FnMut(&Membership),
) -> Result<Membership> {
    look_at_fitness(&nodes, &clock, None).await?;
    let mut admission = AdmissionDriver::new(nodes, max_ttl, Some(founding), clock.clone());
    admission.refuse_other_max_ttl();
    run(admission, max_ttl, clock, progress).await
}

async fn run(
    mut admission: AdmissionDriver,
    max_ttl: Duration,
    clock: Clock,
    mut progress: impl FnMut(&Membership),
) -> Result<Membership> {
    admission.settle().await;
    let started = clock.now();
    let patience = Deadline::after(started, PATIENCE);
    let mut told = Deadline::after(clock.now(), Duration::ZERO);
    loop {
        if let Some(halt) = admission.halt() {
            return Err(halted(&admission, max_ttl, halt));
        }
        let now = clock.now();
        let members = admission.members(now);
        members.refuse_twins()?;
        if told.has_passed(now) {
            progress(&members);
            told = Deadline::after(now, TICK);
        }
        let waiting = members.count(|member| matches!(member, Member::Waiting(_)));
        let silent = members.count(|member| member == Member::Unknown);
        let longest = members.max_ttl.map_or(max_ttl, |set| set.max(max_ttl));
        let limit = Deadline::after(started, longest * WAITS + PATIENCE);
        let is_settled = waiting == 0 && (silent == 0 || patience.has_passed(now));
        if is_settled || limit.has_passed(now) {
            members.refuse_unreachable()?;
            return match admission.rival() {
                Some(other) if matches!(members.outlook, Outlook::Later(_)) => {
                    Err(rivalry(max_ttl, other))
                }
                _ => Ok(members),
            };
        }
        admission.step(TICK).await;
    }
}

/// The error if two operators with different values hinder each other until the time limit.
fn rivalry(max_ttl: Duration, other: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "another `leasehold quorum init`, or a client with another max-ttl, sets up the same nodes with a longest ttl of {other:?}, \
             not {max_ttl:?}: each replaces the markers of the other, and too few nodes vote; agree on one value, wait until \
             the other command has ended, and run `leasehold quorum init --after-loss --max-ttl TIME` once"
        ),
    )
}

/// The error if nodes cannot be set up, with what to do.
fn halted(admission: &AdmissionDriver, max_ttl: Duration, halt: Halt) -> Error {
    let silent: Vec<String> = admission
        .silent()
        .map(|node| {
            let trouble = admission.trouble(node).unwrap_or_else(|| "does not answer".into());
            format!("{} {trouble}", admission.place(node))
        })
        .collect();
    let silent = silent.join(", ");
    let (kind, message) = match halt {
        Halt::Silent => (
            ErrorKind::Unavailable,
            format!(
                "a first start needs an answer from every node, since a silent node may hold \
                 leases: {silent}; start it and run `leasehold quorum init` again, or run \
                 `leasehold quorum init --after-loss`, which waits until no lease is left; \
                 nothing was changed"
            ),
        ),
        Halt::TooFew => {
            let (all, answer) = (admission.len(), admission.len() - admission.silent().count());
            (
                ErrorKind::Unavailable,
                format!(
                    "{answer} of {all} nodes answer, {} must: {silent}; nothing was changed",
                    majority(all)
                ),
            )
        }
        Halt::Voted(node) => (
            ErrorKind::Refused,
            format!(
                "this is not a first start: node {} has voted before, so leases may exist; run `leasehold \
                 quorum init --after-loss`, which waits until no lease is left; nothing was changed",
                admission.place(node)
            ),
        ),
        Halt::Twin(node, of) => (
            ErrorKind::Invalid,
            format!(
                "{} is the same server as {}: a quorum needs independent servers, each listed \
                 once",
                admission.place(node),
                admission.place(of)
            ),
        ),
        Halt::OtherMaxTtl(node, kept) => (
            ErrorKind::Refused,
            format!(
                "node {} is set up with {kept:?} and keeps that, not {max_ttl:?}; {}; nothing was changed",
                admission.place(node),
                change_max_ttl(kept, &admission.marker_key())
            ),
        ),
        Halt::Changed(node) => (
            ErrorKind::Unavailable,
            format!(
                "node {} stopped answering or changed during `leasehold quorum init`; no further \
                 node votes; run it again",
                admission.place(node)
            ),
        ),
    };
    Error::new(kind, message)
}
