//! What becomes of a lease, or of an attempt, when whoever had it goes: it passes on to the next in
//! line in this process, with a fresh token, or goes back to the engine.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Deadline, Now};

use crate::Name;
use crate::ask::ask;
use crate::backend::{Ask, End};
use crate::client::Client;
use crate::ending::hand_over;
use crate::hold::Hold;
use crate::line::{Inbox, Pursuit, Silence, Slot, Turn, Wish};
use crate::renewal::Job;
use crate::shared::Shared;

/// Tokens reserved by one grant for a line of this process: a quantum's worth at 800,000 passes a
/// second.
pub(crate) const BLOCK: u32 = 16_384;
const _: () = assert!(BLOCK <= leasehold_proto::handoff::TOKEN_LEAD, "blocks would be cut");
/// How long a lease goes from task to task of one process while somebody outside waits for it.
/// A time is fair between processes with quick and slow holders, a number of passes is not.
const QUANTUM: Duration = Duration::from_millis(20);
/// The same for those who do not care for order.
const UNFAIR_QUANTUM: Duration = Duration::from_secs(1);

/// What is left to do for whoever lets go of a lease.
#[derive(Debug)]
pub(crate) enum Onward {
    /// Nothing: the next in line of this process has it.
    Passed,
    /// End it at the engine, and in the same step ask for the next in line, if there is one.
    End(Option<Box<Ask>>),
}

/// Lets go of a lease, whose end the caller has claimed. One that is to be kept taken for a while
/// is not passed on.
pub(crate) fn let_go(shared: &Shared, hold: &Arc<Hold>, keep: bool, now: Now) -> Onward {
    if !shared.passes {
        return Onward::End(None); // The next in line has asked for itself.
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

/// The bounds that keep passing on honest: the lease is not about to be lost and is what the next
/// one wants, there is a token left, and nobody outside waits for longer than the quantum.
fn may_pass(hold: &Hold, wish: &Wish, wanted_ns: Option<u64>, now: Now) -> bool {
    let quantum = if wish.fair { QUANTUM } else { UNFAIR_QUANTUM };
    let waited = wanted_ns.map_or(0, |since| now.steady_ns.saturating_sub(since));
    waited < quantum.as_nanos() as u64
        && hold.token() < hold.tokens().top()
        && hold.lease().can_pass(now, &wish.terms)
}

/// An attempt that somebody else asks for: the next in line waits for the answer, and asks for
/// itself if it has heard none by half of its patience.
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

/// A lease that was passed on to one who left in that moment goes on to the next, or ends.
pub(crate) fn go_on(client: &Client, hold: &Arc<Hold>) {
    if let Onward::End(then) = let_go(client.shared(), hold, false, client.shared().clock.now()) {
        end(client, hold, then);
    }
}

/// A lease that was passed on, but lost before it was taken over.
pub(crate) fn end_lost(client: &Client, hold: &Hold) {
    end(client, hold, None);
}

fn end(client: &Client, hold: &Hold, then: Option<Box<Ask>>) {
    let ttl = hold.lease().terms().ttl;
    client.shared().forget(hold);
    let end = End { then, ..hold.end(None) };
    hand_over(client.shared(), client.jobs(), Job::End(end, ttl));
}

/// Who asked leaves the front. The engine may know of its attempt: the next in line goes on with
/// that, and keeps its place in the engine's queue, or it is ended.
pub(crate) fn leave_front(client: &Client, name: &Name, slot: &Slot, pursuit: Option<Pursuit>) {
    let shared = client.shared();
    let attempt = pursuit.as_ref().map(|pursuit| pursuit.ask.attempt);
    let silence = pursuit.as_ref().and_then(|pursuit| pursuit.silence.clone());
    let mut known = pursuit.filter(|pursuit| pursuit.known);
    let then = shared.lines.next(name, attempt, |wish, _| {
        let Some(mut pursuit) = known.take() else { return (Turn::Ask(silence), None) };
        if wish.is_served_by(&slot.wish) {
            // What it has heard and not taken, it hears again when it asks.
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
    hand_over(client.shared(), client.jobs(), Job::End(end, pursuit.ask.ttl));
}
