//! What all nodes together report about a lock: its holder, if a majority reports the same.

use std::time::Duration;

use leasehold_proto::Token;
use leasehold_proto::quorum::majority;

use super::node::NodeLease;
use leasehold_core::{AttemptId, Name, State, Status};

/// Returns the state of a lock from the answers of the nodes; `None` for a node that did not
/// answer.
pub(super) fn status(name: &Name, seen: &[Option<Option<NodeLease>>]) -> Status {
    let (all, silent) = (seen.len(), seen.iter().filter(|answer| answer.is_none()).count());
    let known = || seen.iter().flatten().flatten();
    let mut status = Status::free(name);
    let leases: Vec<&NodeLease> = known().filter(|lease| !lease.remaining.is_zero()).collect();
    if let Some(own) = most(&leases) {
        let has = own.len();
        if has < all {
            status.note = Some(format!("leased on {has} of {all} nodes; {silent} did not answer"));
        }
        // Silent nodes may complete the majority.
        if has + silent >= majority(all) {
            let mut remaining: Vec<Duration> = own.iter().map(|lease| lease.remaining).collect();
            remaining.sort_unstable_by(|one, other| other.cmp(one));
            status.state = State::Held;
            status.remaining = remaining.get(majority(all).min(has).saturating_sub(1)).copied();
            tell(&mut status, &own);
            return status;
        }
    }
    // A failed attempt may also be the last one at some node.
    let past: Vec<&NodeLease> = known().collect();
    if let Some(last) = most(&past).filter(|last| last.len() >= majority(all)) {
        tell(&mut status, &last);
    } else {
        status.token = token(known().map(|lease| lease.counter));
    }
    status
}

/// Fills in the holder, its token, and since when it holds.
fn tell(status: &mut Status, own: &[&NodeLease]) {
    status.holder = own.first().map(|lease| lease.holder.clone());
    status.token = token(own.iter().map(|lease| lease.counter));
    status.since_unix_ms = own.iter().map(|lease| lease.since_unix_ms).min();
}

/// Returns the leases of the attempt that most nodes name.
fn most<'a>(leases: &[&'a NodeLease]) -> Option<Vec<&'a NodeLease>> {
    let of = |attempt: AttemptId| {
        leases.iter().copied().filter(move |lease| lease.holder.attempt == attempt)
    };
    let first = leases.iter().max_by_key(|lease| of(lease.holder.attempt).count())?;
    Some(of(first.holder.attempt).collect())
}

/// Returns the counter that most nodes have: a few may have granted more than the token.
fn token(counters: impl Iterator<Item = Token>) -> Option<Token> {
    let mut counters: Vec<Token> = counters.collect();
    counters.sort_unstable();
    let runs = counters.chunk_by(|one, other| one == other);
    runs.max_by_key(|run| run.len())?.first().copied()
}

#[cfg(test)]
mod tests {
    use leasehold_proto::ClientId;

    use super::*;
    use leasehold_core::backend::Origin;

    fn lease(number: u32, counter: u64, seconds: u64) -> Option<Option<NodeLease>> {
        let attempt = AttemptId::new(ClientId::from_bits(1), number, 0);
        Some(Some(NodeLease {
            holder: Origin::new("host", 1, None).holder(attempt),
            counter: Token::new(counter).unwrap(),
            since_unix_ms: 7,
            remaining: Duration::from_secs(seconds),
        }))
    }

    #[test]
    fn a_lock_is_held_by_whom_a_majority_names() {
        let name = Name::new("a").unwrap();
        let free = Some(None);
        let held = [lease(1, 5, 9), lease(2, 9, 1), lease(1, 5, 3), free.clone(), lease(1, 7, 6)];
        let held = status(&name, &held);
        assert_eq!(
            (held.state, held.token, held.remaining),
            (State::Held, Token::new(5), Some(Duration::from_secs(3)),)
        );
        let split = [lease(1, 5, 9), lease(2, 9, 1), lease(1, 5, 3), free.clone(), lease(3, 7, 6)];
        let split = status(&name, &split);
        assert_eq!((split.state, split.holder), (State::Free, None));
        // A majority that does not answer may hold it.
        let unseen = [lease(1, 5, 9), None, lease(1, 5, 3), free.clone(), None];
        assert_eq!(status(&name, &unseen).state, State::Held);
        assert_eq!(status(&name, &[free.clone(), free.clone(), None]).note, None);
        // The last holder is known for a while, and the last token if the nodes disagree on the holder.
        let last = status(&name, &[lease(1, 5, 0), lease(1, 5, 0), free.clone()]);
        assert_eq!((last.state, last.token, last.remaining), (State::Free, Token::new(5), None));
        assert_eq!(last.holder.unwrap().attempt, AttemptId::new(ClientId::from_bits(1), 1, 0));
        let unclear = status(&name, &[lease(1, 5, 0), lease(2, 5, 0), free]);
        assert_eq!((unclear.holder, unclear.token), (None, Token::new(5)));
    }
}
