//! Acquire requests of the client, and their results.

use std::time::Duration;

use leasehold_proto::quorum::{
    AfterDenied, Attempt, AttemptTerms, Denied, NodeReply, Outlook, node_limit,
};
use leasehold_proto::{Deadline, Now, Token, TokenBlock};
use tokio::sync::oneshot;

use super::Driver;
use super::attempts::{AttemptState, in_round};
use super::node_outbox::NodeOutbox;
use super::run::Run;
use crate::explain::{self, Report};
use leasehold_core::backend::{AcquireRequest, Answer, Event, Grant, Term};
use leasehold_core::{Error, Result};

/// How long nodes must be without a marker before clients stop asking them. Each node is checked
/// every second.
const SURE: Duration = Duration::from_secs(3);

type Asker = oneshot::Sender<Result<Answer>>;

impl Driver {
    /// Acquires for an attempt. A repeated request waits for the running one, or returns its lease.
    pub(super) fn acquire(&mut self, now: Now, request: AcquireRequest, asker: Asker) {
        let first = self.attempts.first_round();
        let round = match self.attempts.get_mut(request.attempt) {
            None => first,
            Some(AttemptState::Asking { asker: waiting, .. }) => {
                *waiting = asker;
                return;
            }
            Some(AttemptState::Held { run, round }) => {
                let (run, round) = (*run, *round);
                if let Some(grant) = self.grant(now, run) {
                    asker.send(Ok(Answer::Granted(grant))).ok();
                    return;
                }
                // Its lease has expired, and no task has noticed.
                self.lost(now, run, false);
                self.pump(now, run);
                round.wrapping_add(1)
            }
            Some(AttemptState::Refused { round, .. }) => *round,
            Some(AttemptState::Releasing { .. } | AttemptState::Ended(_)) => {
                asker.send(Ok(Answer::Ended)).ok();
                return;
            }
        };
        if let Err(error) = self.may_ask(now, &request) {
            asker.send(Err(error)).ok();
            return;
        }
        if request.wait {
            if let Some(pause) = self.waits.lets_go_first(now, &request.name) {
                let state = AttemptState::Refused { round, waits: true };
                self.attempts.set(request.attempt, state);
                asker.send(Ok(Answer::Busy { ask_again: Some(pause) })).ok();
                return;
            }
            self.waits.asked(&request.name);
        }
        let limit = self.node_limit.unwrap_or_else(|| node_limit(request.ttl, self.outboxes.len()));
        let terms = AttemptTerms {
            attempt: in_round(request.attempt, round),
            nodes: self.outboxes.len(),
            ttl: request.ttl,
            limit,
            seen: self.seen.of(&request.name),
        };
        let client = request.attempt;
        let run = self.runs.insert(Run {
            machine: Attempt::acquire(now, terms),
            hash: self.hash(&request.name),
            name: request.name,
            origin: request.origin,
            waits: request.wait,
            client: Some(client),
            asked: now,
            limit,
            held: false,
            denial: None,
            notified: 0,
            renewal: None,
            ender: None,
            outstanding: 0,
            timer: None,
        });
        self.attempts.set(client, AttemptState::Asking { run, round, asker });
        self.pump(now, run);
    }

    /// Refuses a request that the nodes are known to refuse.
    fn may_ask(&self, now: Now, request: &AcquireRequest) -> Result<()> {
        if let Some(max_ttl) = self.admission.max_ttl().filter(|max_ttl| request.ttl > *max_ttl) {
            return Err(explain::ttl_too_long(request.ttl, max_ttl, &self.admission));
        }
        // The state of a node may be some seconds old: another client may have admitted it since.
        let known = |since: Now| Deadline::after(since, SURE).has_passed(now);
        match self.forgotten.is_some_and(known) {
            true => Err(explain::forgotten(self.admission.outlook(now))),
            false => Ok(()),
        }
    }

    /// Records a change that the admission learned from a node.
    pub(super) fn note_outlook(&mut self, now: Now) {
        self.forgotten = match self.admission.outlook(now) {
            Outlook::Forgotten | Outlook::NotSetUp => self.forgotten.or(Some(now)),
            _ => None,
        };
    }

    pub(super) fn held(&mut self, now: Now, number: usize, token: Token, until: Deadline) {
        let Some(run) = self.runs.get_mut(number) else { return };
        run.held = true;
        self.seen.note(now, &run.name, run.machine.seen().max(token.get()));
        let Some(client) = run.client else { return };
        if run.waits {
            self.waits.leave(&run.name);
        }
        let round = match self.attempts.get(client) {
            Some(AttemptState::Asking { round, .. }) => *round,
            _ => 0,
        };
        let state = self.attempts.set(client, AttemptState::Held { run: number, round });
        if let Some(AttemptState::Asking { asker, .. }) = state {
            // If no caller is there, it is ended, asked for again, or not renewed.
            asker.send(Ok(Answer::Granted(granted(token, until)))).ok();
        }
    }

    /// Handles an attempt that cannot reach a majority. Some nodes reported only later how they
    /// would vote.
    pub(super) fn denied(
        &mut self,
        now: Now,
        number: usize,
        denied: &Denied,
        later: &[(usize, NodeReply)],
    ) {
        let Some(run) = self.runs.get_mut(number) else { return };
        self.seen.note(now, &run.name, denied.seen);
        let Some(client) = run.client.take() else { return };
        let waits = run.waits;
        if waits {
            let (granted, jitter) = (denied.tally.granted, fastrand::u64(..));
            if self.waits.refused(now, &run.name, granted, jitter) {
                self.sink.send(Event::Freed { name: run.name.clone() });
            }
        }
        let answer = match denied.decide(self.admission.outlook(now)) {
            AfterDenied::Taken => Ok(Answer::Busy { ask_again: None }),
            AfterDenied::TooLate => Err(explain::too_late(run.asked, now)),
            after @ (AfterDenied::Later(_) | AfterDenied::Unanswered) => {
                let error = self.runs.get(number).map_or_else(explain::driver_gone, |run| {
                    self.explain(now, run, later, |report| explain::denied(report, denied.tally))
                });
                match after {
                    AfterDenied::Later(ask_again) => {
                        Ok(Answer::Later { ask_again, why: error.message().to_owned() })
                    }
                    _ => Err(error),
                }
            }
        };
        let round = match self.attempts.get(client) {
            Some(AttemptState::Asking { round, .. }) => round.wrapping_add(1),
            _ => return,
        };
        let state = self.attempts.set(client, AttemptState::Refused { round, waits });
        if let Some(AttemptState::Asking { asker, .. }) = state {
            asker.send(answer).ok();
        }
    }

    /// Returns why a renewal did not reach a majority: which nodes did not take part, and what to
    /// do.
    pub(super) fn unrenewed(&self, now: Now, number: usize) -> Error {
        match self.runs.get(number) {
            Some(run) => self.explain(now, run, &[], explain::unrenewed),
            None => explain::driver_gone(),
        }
    }

    /// Explains an attempt by the replies of the nodes, and by what is known of them.
    fn explain(
        &self,
        now: Now,
        run: &Run,
        later: &[(usize, NodeReply)],
        say: impl FnOnce(&Report<'_>) -> Error,
    ) -> Error {
        let had_time = Deadline::after(run.asked, run.limit).has_passed(now);
        say(&Report {
            now,
            machine: &run.machine,
            later,
            had_time: had_time.then_some(run.limit),
            admission: &self.admission,
            trouble: &|node| self.outboxes.get(node).map(NodeOutbox::trouble).unwrap_or_default(),
        })
    }

    /// Returns what a run holds now.
    fn grant(&self, now: Now, number: usize) -> Option<Grant> {
        let run = self.runs.get(number)?;
        let until = run.machine.deadline().filter(|until| !until.has_passed(now))?;
        Some(granted(run.machine.token()?, until))
    }
}

fn granted(token: Token, until: Deadline) -> Grant {
    Grant::new(TokenBlock::single(token), Term::Until(until), false)
}
