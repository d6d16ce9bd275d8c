//! What all nodes together say of a lock: who has it, if a majority says the same.

use std::time::Duration;

use leasehold_proto::Token;
use leasehold_proto::quorum::majority;

use super::node::NodeLease;
use crate::backend::{State, Status};
use crate::{AttemptId, Name};

/// A lock as the nodes that answered see it; `None` for one that did not answer.
pub(super) fn status(name: &Name, seen: &[Option<Option<NodeLease>>]) -> Status {
    let leases: Vec<&NodeLease> = seen.iter().flatten().flatten().collect();
    let silent = seen.iter().filter(|answer| answer.is_none()).count();
    let mut status = Status {
        name: name.clone(),
        state: State::Free,
        holder: None,
        token: None,
        since_unix_ms: None,
        remaining: None,
        waiters: None,
        more_waiters: 0,
        note: None,
    };
    let count =
        |attempt: AttemptId| leases.iter().filter(|lease| lease.holder.attempt == attempt).count();
    let Some(first) = leases.iter().max_by_key(|lease| count(lease.holder.attempt)) else {
        return status;
    };
    let attempt = first.holder.attempt;
    let (all, has) = (seen.len(), count(attempt));
    if has < all {
        status.note = Some(format!("leased on {has} of {all} nodes; {silent} did not answer"));
    }
    // Nodes that do not answer may make up the majority.
    if has + silent < majority(all) {
        return status;
    }
    let own = || leases.iter().copied().filter(|lease| lease.holder.attempt == attempt);
    let mut remaining: Vec<Duration> = own().map(|lease| lease.remaining).collect();
    remaining.sort_unstable_by(|one, other| other.cmp(one));
    status.state = State::Held;
    status.holder = Some(first.holder.clone());
    status.token = token(own().map(|lease| lease.counter));
    status.since_unix_ms = own().map(|lease| lease.since_unix_ms).min();
    status.remaining = remaining.get(majority(all).min(has).saturating_sub(1)).copied();
    status
}

/// The counter that most nodes have: a few may have given more than the token.
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
    use crate::backend::Origin;

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
        assert_eq!(status(&name, &split).state, State::Free);
        // It may be held by a majority that we cannot see.
        let unseen = [lease(1, 5, 9), None, lease(1, 5, 3), free.clone(), None];
        assert_eq!(status(&name, &unseen).state, State::Held);
        assert_eq!(status(&name, &[free.clone(), free, None]).note, None);
    }
}
