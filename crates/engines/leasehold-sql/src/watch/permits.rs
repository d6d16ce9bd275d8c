//! What a poll reads and reports about waiters for permits of semaphores.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::backend::{Event, Grant, Term};
use leasehold_core::proto::drift;
use leasehold_core::proto::semaphore::Limit;
use leasehold_core::{AttemptId, Deadline, Name, Now, Result};

use super::{Look, NAMES, Watch};
use crate::connection::{Reply, Value};
use crate::error::strange;
use crate::kind::Kind;
use crate::record;
use crate::semaphore::permit_of;
use crate::status::name_of;
use crate::tables::Tables;

impl Watch {
    /// Returns the statements that ask for the permits of local waiters, and for the limit and the
    /// first end of a permit of each semaphore. There are two for each part of the waiters.
    pub(super) fn ask_permits(&self, look: &Look) -> Vec<String> {
        let Tables { dialect, locks, permits, .. } = &self.store.tables;
        let (clock, state) = (dialect.now(), Kind::Semaphore.state());
        let waiting: Vec<_> = look.permits.iter().collect();
        let ask = |waiting: &[(&AttemptId, &(Name, u32))]| {
            let attempts: Vec<AttemptId> = waiting.iter().map(|(attempt, _)| **attempt).collect();
            let names: BTreeSet<&Name> = waiting.iter().map(|(_, (name, _))| name).collect();
            let names = self.list(&names.into_iter().collect::<Vec<_>>());
            let attempts = record::list(*dialect, &attempts);
            [
                format!(
                    "SELECT p.attempt, p.base, p.top, p.slots, p.until_us, p.confirmed, l.line, \
                     {clock} FROM {permits} p JOIN {locks} l ON l.name = p.name \
                     AND l.state = {state} WHERE p.name IN ({names}) AND p.attempt IN ({attempts})"
                ),
                format!(
                    "SELECT l.name, l.confirmed, (SELECT MIN(p.until_us) FROM {permits} p \
                     WHERE p.name = l.name), {clock} FROM {locks} l \
                     WHERE l.name IN ({names}) AND l.state = {state}"
                ),
            ]
        };
        waiting.chunks(NAMES).flat_map(ask).collect()
    }

    /// Reports permits that were granted, waiters that need too many slots, and semaphores that may
    /// have free slots. Returns how long the first permit lasts that a waiter waits for.
    pub(super) fn tell_permits(
        &self,
        look: &Look,
        replies: &[Reply],
        sent: Now,
    ) -> Result<Option<Duration>> {
        let mut next_end: Option<Duration> = None;
        let mut granted = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for pair in replies.chunks(2) {
            let [permits, semaphores] = pair else { return Err(strange("replies are missing")) };
            for row in &permits.rows {
                granted.extend(self.tell_permit(look, row, sent)?);
            }
            for row in &semaphores.rows {
                let [name, limit, first, clock] = row.as_slice() else {
                    return Err(strange("a short row"));
                };
                let (name, limit) = (name_of(name)?, limit.unsigned()?);
                if let Ok(limit) = Limit::new(u32::try_from(limit).unwrap_or(0)) {
                    tell_limit(look, &name, limit);
                }
                let left_us = match first {
                    Value::Null => 0,
                    first => first.unsigned()?.saturating_sub(clock.unsigned()?),
                };
                match left_us {
                    // The next request of a waiter takes the slots back.
                    0 => look.events.send(Event::Freed { name: name.clone() }),
                    left_us => {
                        let left = Duration::from_micros(left_us);
                        next_end = Some(next_end.map_or(left, |end| end.min(left)));
                        true
                    }
                };
                seen.insert(name);
            }
        }
        for (attempt, (name, _)) in &look.permits {
            if !granted.contains(attempt) && !seen.contains(name) {
                look.events.send(Event::Freed { name: name.clone() });
            }
        }
        Ok(next_end)
    }

    /// Reports a permit that was granted to a local waiter; returns its attempt.
    fn tell_permit(&self, look: &Look, row: &[Value], sent: Now) -> Result<Option<AttemptId>> {
        let [attempt, base, top, slots, until_us, confirmed, line, clock] = row else {
            return Err(strange("a short row of a permit"));
        };
        let attempt = record::attempt(attempt)?;
        let Some((name, _)) = look.permits.get(&attempt) else { return Ok(None) };
        let permit = permit_of(base, top, slots)?;
        let lasts_us = until_us.unsigned()?.saturating_sub(clock.unsigned()?);
        let lasts = Duration::from_micros(lasts_us);
        if confirmed.number()? != 0 || lasts.is_zero() {
            look.events.send(Event::Freed { name: name.clone() });
            return Ok(Some(attempt));
        }
        // By the local clock, an offer lasts from before the request for as long as the database
        // reported.
        let until = Deadline::after(sent, lasts.saturating_sub(drift(lasts)));
        let grant = Grant::new(permit.tokens, Term::Offer(until), line.number()? != 0);
        // A waiter that has left is notified too: the client releases the permit.
        self.leave(attempt);
        let (name, slots) = (name.clone(), permit.slots);
        look.events.send(Event::Permit { name, attempt, grant, slots });
        Ok(Some(attempt))
    }
}

/// Reports a limit to the waiters that need more slots: a step has removed them from the queue.
fn tell_limit(look: &Look, name: &Name, limit: Limit) {
    for (attempt, (waits_for, slots)) in &look.permits {
        if waits_for == name && *slots > limit.get() {
            let (name, attempt) = (name.clone(), *attempt);
            look.events.send(Event::Refused { name, attempt, limit });
        }
    }
}
