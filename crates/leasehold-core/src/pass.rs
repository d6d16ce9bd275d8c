//! What happens to a lease or an attempt when its task releases or leaves it: the next local waiter
//! takes it over with a fresh token, or it goes back to the engine.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Deadline, Now};

use crate::Name;
use crate::ask::ask;
use crate::backend::{Ask, End};
use crate::client::Client;
use crate::ending::{Ending, hand_over};
use crate::hold::Hold;
use crate::line::{Inbox, Pursuit, Silence, Slot, Turn, Wish};
use crate::renewal::Job;
use crate::shared::Shared;

/// How many tokens one grant reserves for a local queue: enough for one quantum at 800,000
/// hand-offs a second.
pub(crate) const BLOCK: u32 = 16_384;
const _: () = assert!(BLOCK <= leasehold_proto::handoff::TOKEN_LEAD, "blocks would be cut");
/// How long a lease stays in one process while a client outside waits for it. A time is fair
/// between processes with fast and slow holders; a number of hand-offs is not.
const QUANTUM: Duration = Duration::from_millis(20);
/// The same limit for acquires that are not fair.
const UNFAIR_QUANTUM: Duration = Duration::from_secs(1);

/// What a task that releases a lease must still do.
#[derive(Debug)]
pub(crate) enum Onward {
    /// Nothing: the next local waiter has it.
    Passed,
    /// End it at the engine, and in the same step ask for the next local waiter, if there is one.
    End(Option<Box<Ask>>),
}

/// Releases a lease whose end the caller has claimed. A lease that must stay taken for a while is
/// not handed to a local waiter.
pub(crate) fn let_go(shared: &Shared, hold: &Arc<Hold>, keep: bool, now: Now) -> Onward {
    if !shared.passes {
        return Onward::End(None); // The next local waiter has asked itself.
    }
    let next = shared.lines.next(&hold.name, Some(hold.attempt), |wish, wanted_ns| {
        if keep {
            return (Turn::Ask(None), Onward::End(None));
        }
        if may_pass(hold, wish, wanted_ns, now) {
            return (Turn::Lease(hold.clone()), Onward::Passed);
        }
        let (turn, ask) = ask_for(shared, &hold.name, wish, now, None);
        (turn, Onward::End(Some(ask)))
    });
    next.unwrap_or(Onward::End(None))
}

/// Returns true if a local hand-off is allowed: the lease is not about to be lost and fits the next
/// wish, a token is left, and no client outside has waited longer than the quantum.
fn may_pass(hold: &Hold, wish: &Wish, wanted_ns: Option<u64>, now: Now) -> bool {
    let quantum = if wish.fair { QUANTUM } else { UNFAIR_QUANTUM };
    let waited = wanted_ns.map_or(0, |since| now.steady_ns.saturating_sub(since));
    waited < quantum.as_nanos() as u64
        && hold.token() < hold.tokens().top()
        && hold.lease().can_pass(now, &wish.terms)
}

/// Builds the request that the releasing task sends for the next local waiter. That waiter waits
/// for the answer, and asks itself if no answer has arrived after half of its timeout.
fn ask_for(
    shared: &Shared,
    name: &Name,
    wish: &Wish,
    now: Now,
    silence: Option<Silence>,
) -> (Turn, Box<Ask>) {
    let ask = ask(name, wish, shared.new_attempt(), true, true);
    let pursuit = Pursuit {
        ask: ask.clone(),
        unanswered: false,
        in_exchange: true,
        known: true,
        ask_at: Some(Deadline::after(now, shared.patience / 2)),
        silence: Some(silence.unwrap_or(Silence { since: now, error: None })),
    };
    (Turn::Attempt(Box::new(pursuit)), Box::new(ask))
}

/// Hands a lease on, or ends it, if its new holder left just then.
pub(crate) fn go_on(client: &Client, hold: &Arc<Hold>) {
    if let Onward::End(then) = let_go(client.shared(), hold, false, client.shared().clock.now()) {
        end(client, hold, then);
    }
}

/// Ends a lease that was lost before the next holder took it over.
pub(crate) fn end_lost(client: &Client, hold: &Hold) {
    end(client, hold, None);
}

fn end(client: &Client, hold: &Hold, then: Option<Box<Ask>>) {
    client.shared().forget(hold);
    let ending = Ending::of_hold(hold, End { then, ..hold.end(None) });
    hand_over(client.shared(), client.jobs(), Job::End(ending));
}

/// Removes an asking task from the front. If the engine may know its attempt, the next local waiter
/// continues it and keeps its place in the engine's queue; otherwise the attempt ends.
pub(crate) fn leave_front(client: &Client, name: &Name, slot: &Slot, pursuit: Option<Pursuit>) {
    let shared = client.shared();
    let attempt = pursuit.as_ref().map(|pursuit| pursuit.ask.attempt);
    let silence = pursuit.as_ref().and_then(|pursuit| pursuit.silence.clone());
    let mut known = pursuit.filter(|pursuit| pursuit.known);
    let then = shared.lines.next(name, attempt, |wish, _| {
        let Some(mut pursuit) = known.take() else { return (Turn::Ask(silence), None) };
        if wish.is_served_by(&slot.wish) {
            // Messages that it did not read come again when it asks.
            let inbox = slot.inbox();
            let Inbox { granted, answer, next, ask, broken, turn: _ } = &*inbox;
            let told = granted.is_some() || answer.is_some() || next.is_some();
            if told || *ask || broken.is_some() {
                pursuit.ask_at = None;
            }
            return (Turn::Attempt(Box::new(pursuit)), None);
        }
        known = Some(pursuit);
        if !shared.passes {
            return (Turn::Ask(silence), None);
        }
        let (turn, ask) = ask_for(shared, name, wish, shared.clock.now(), silence);
        (turn, Some(ask))
    });
    if let Some(pursuit) = known {
        give_up(client, &pursuit, then.flatten());
    }
}

/// Ends an attempt that never became a hold.
pub(crate) fn give_up(client: &Client, pursuit: &Pursuit, then: Option<Box<Ask>>) {
    let end = End {
        name: pursuit.ask.name.clone(),
        attempt: pursuit.ask.attempt,
        base: None,
        last: None,
        suspect: pursuit.is_suspect(),
        keep: None,
        then,
    };
    let ending = Ending::new(end, pursuit.ask.ttl);
    hand_over(client.shared(), client.jobs(), Job::End(ending));
}
