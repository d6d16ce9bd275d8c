//! The status of a semaphore.

use std::time::Duration;

use leasehold_core::{Name, Permits, Permitted, Result, State, Status, Waiter};
use redis::Value;

use super::texts;
use crate::error::strange;
use crate::reply::{self, permit as codec};

/// The length of a permit before its slots, in bytes: `attempt(32) state(1) base(16) top(16) since(16)`.
const FIXED: usize = 81;

/// Builds the status of a semaphore from the answers of the script.
pub(super) fn status(name: &Name, record: &str, now: u64, answers: &[Value]) -> Result<Status> {
    let [_, _, queue, all, _, held, permits] = answers else { return Err(strange(answers)) };
    let (Value::Int(all), Value::Int(held)) = (all, held) else { return Err(strange(answers)) };
    let stored = codec::limit_in(record)?;
    let mut status = Status::free(name);
    let waiters = waiters(queue)?;
    status.more_waiters = usize::try_from(*all).unwrap_or_default().saturating_sub(waiters.len());
    status.waiters = Some(waiters);
    let mut shown = Permits::new(stored.limit.get(), stored.version);
    shown.held = u32::try_from(*held).unwrap_or_default();
    for pair in texts(permits)?.chunks_exact(2) {
        shown.holders.push(permit(&pair[0], &pair[1], now)?);
    }
    shown.holders.sort_by(|one, other| one.slots.cmp(&other.slots));
    status.state = if shown.holders.is_empty() { State::Free } else { State::Permits };
    status.holder = shown.holders.first().map(|one| one.holder.clone());
    status.permits = Some(shown);
    Ok(status)
}

/// Parses a permit and its end.
fn permit(text: &str, ends: &str, now: u64) -> Result<Permitted> {
    let field = |from: usize, to: usize| text.get(from..to).ok_or_else(|| strange(text));
    let attempt = reply::attempt(field(0, 32)?)?;
    let (slots, tail) = field(FIXED, text.len())?.split_once(';').ok_or_else(|| strange(text))?;
    let holder = reply::holder(attempt, tail.get(4..).unwrap_or_default());
    let remaining = Duration::from_micros(reply::number(ends)?.saturating_sub(now));
    let token = reply::token(field(33, 49)?)?;
    Ok(Permitted::new(holder, codec::slots(slots)?, token, Some(remaining)))
}

/// Parses entries of the queue and tickets, in turn.
fn waiters(queue: &Value) -> Result<Vec<Waiter>> {
    let waiter = |pair: &[String]| {
        let (member, ticket) = (&pair[0], &pair[1]);
        let field = |from: usize, to: usize| member.get(from..to).unwrap_or_default();
        let attempt = reply::attempt(field(0, 32))?;
        let holder = reply::holder(attempt, field(57, member.len()));
        let ticket = ticket.parse::<f64>().unwrap_or_default() as u64;
        let slots = field(32, 37).parse().map_err(|_| strange(member))?;
        Ok(Waiter::new(holder, ticket / 1000).with_slots(slots))
    };
    texts(queue)?.chunks_exact(2).map(waiter).collect()
}
