//! Tests of a quorum node: what each operation does, repeated and late.

use super::super::MAX_TTL;
use super::*;
use crate::ClientId;

const P: ProcessId = ProcessId::from_bytes([1; 20]);
const TTL: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Now {
    Now { steady_ns: seconds * 1_000_000_000, wall_ns: seconds * 1_000_000_000 }
}

fn id(number: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(7), number, 0)
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn acquire(attempt: u32, proposal: u64) -> Op {
    Op::Acquire { attempt: id(attempt), ttl: TTL, proposal: token(proposal) }
}

fn renew(attempt: u32, value: u64, heal: bool) -> Op {
    Op::Renew { attempt: id(attempt), ttl: TTL, token: token(value), heal }
}

fn release(attempt: u32) -> Op {
    Op::Release { attempt: id(attempt) }
}

/// An admitted node; requests go to one lock.
struct One(Node<u8>);

impl One {
    fn new() -> Self {
        let mut node = Node::new(P);
        node.propose(P, 5, MAX_TTL).unwrap();
        node.admit(P, 5, 0).unwrap();
        Self(node)
    }

    #[track_caller]
    fn says(&mut self, second: u64, op: Op, reply: NodeReply) {
        assert_eq!(self.0.handle(at(second), P, &0, op), reply);
    }
}

#[test]
fn a_grant_is_above_the_counter_and_at_least_the_proposal() {
    let mut node = One::new();
    node.says(0, acquire(1, 100), NodeReply::Granted(token(100)));
    node.says(1, acquire(1, 500), NodeReply::Granted(token(100)));
    let remaining = Duration::from_secs(28);
    node.says(2, acquire(2, 200), NodeReply::Busy { counter: token(100), remaining });
    node.says(3, release(1), NodeReply::Released);
    node.says(4, acquire(2, 50), NodeReply::Granted(token(101)));
}

#[test]
fn a_counter_from_before_the_admission_is_below_what_was_recovered() {
    let mut node = One::new();
    node.says(0, acquire(1, 100), NodeReply::Granted(token(100)));
    node.says(1, release(1), NodeReply::Released);
    // The node restarts with this data; only other nodes know later tokens.
    node.0.marker = None;
    node.0.propose(P, 6, MAX_TTL).unwrap();
    node.0.admit(P, 6, 500).unwrap();
    node.says(2, acquire(2, 1), NodeReply::Granted(token(501)));
    node.says(3, release(2), NodeReply::Released);
    // Grants count again from now on.
    node.0.admit(P, 6, 900).unwrap();
    node.says(4, acquire(3, 1), NodeReply::Granted(token(502)));
}

#[test]
fn a_record_is_removed_a_minute_after_its_last_use_and_its_tokens_are_remembered() {
    let mut node = One::new();
    node.says(0, acquire(1, 100), NodeReply::Granted(token(100)));
    assert!(!node.0.remove(at(20), &0), "the lock is held");
    node.says(20, release(1), NodeReply::Released);
    // The lease would have lasted until second 30.
    assert!(!node.0.remove(at(90), &0), "the record refuses late requests");
    node.says(90, acquire(1, 100), NodeReply::Ended);
    assert!(node.0.remove(at(91), &0));
    assert!(!node.0.remove(at(91), &0), "there is no record");
    node.says(92, acquire(2, 50), NodeReply::Granted(token(101)));
}

#[test]
fn a_commit_needs_the_lease_and_the_counter_that_was_granted() {
    let mut node = One::new();
    node.says(0, acquire(1, 10), NodeReply::Granted(token(10)));
    let commit = |attempt, from, to| Op::Commit {
        attempt: id(attempt),
        from: token(from),
        token: token(to),
    };
    node.says(0, commit(2, 10, 12), NodeReply::Moved);
    node.says(0, commit(1, 9, 12), NodeReply::Moved);
    node.says(0, commit(1, 10, 12), NodeReply::Committed);
    node.says(0, commit(1, 10, 12), NodeReply::Committed);
    node.says(0, commit(1, 10, 13), NodeReply::Moved);
    node.says(40, commit(1, 12, 13), NodeReply::Moved);
    node.says(40, acquire(2, 1), NodeReply::Granted(token(13)));
}

#[test]
fn an_ended_attempt_comes_back_by_no_late_message() {
    let mut node = One::new();
    node.says(0, release(1), NodeReply::NotHeld);
    node.says(0, acquire(1, 10), NodeReply::Ended);
    node.says(0, acquire(2, 10), NodeReply::Granted(token(10)));
    node.says(1, release(2), NodeReply::Released);
    node.says(1, release(2), NodeReply::Released);
    node.says(1, renew(2, 10, true), NodeReply::Ended);
    node.says(1, release(1), NodeReply::NotHeld);
    // Other attempts have ended since; the node still refuses it for a while.
    node.says(2, acquire(1, 10), NodeReply::Ended);
    node.says(2, release(3), NodeReply::NotHeld);
    node.says(59, acquire(1, 10), NodeReply::Ended);
    node.says(62, acquire(1, 10), NodeReply::Granted(token(11)));
}

#[test]
fn a_renewal_extends_its_own_lease_and_heals_only_when_asked_to() {
    let mut node = One::new();
    node.says(0, acquire(1, 10), NodeReply::Granted(token(10)));
    node.says(10, renew(1, 12, false), NodeReply::Renewed);
    let remaining = Duration::from_secs(1);
    node.says(39, renew(2, 11, true), NodeReply::Busy { counter: token(12), remaining });
    node.says(40, renew(1, 12, false), NodeReply::Missing);
    node.says(40, renew(1, 12, true), NodeReply::Healed);
    node.says(41, renew(1, 12, true), NodeReply::Renewed);
}

#[test]
fn what_was_forgotten_is_made_up_for_by_the_high_water_mark() {
    let mut node = One::new();
    node.says(0, acquire(1, 900), NodeReply::Granted(token(900)));
    node.says(0, release(1), NodeReply::Released);
    let later = RETENTION.as_secs() + 1;
    node.says(later, acquire(2, 1), NodeReply::Granted(token(901)));
    // Also with an old token: a later token may have been lost.
    node.0.forget();
    node.0.propose(P, 6, MAX_TTL).unwrap();
    node.0.admit(P, 6, 950).unwrap();
    node.says(later, renew(2, 901, true), NodeReply::Healed);
    node.says(later, release(2), NodeReply::Released);
    node.says(later, acquire(3, 1), NodeReply::Granted(token(951)));
}

#[test]
fn only_an_admitted_process_votes() {
    let mut node = One::new();
    let other = ProcessId::from_bytes([2; 20]);
    assert_eq!(
        node.0.handle(at(0), other, &0, acquire(1, 1)),
        NodeReply::Refused(Refusal::Stranger)
    );
    node.0.restart(other);
    node.says(0, acquire(1, 1), NodeReply::Refused(Refusal::Stranger));
    let refused = NodeReply::Refused(Refusal::NotAdmitted);
    assert_eq!(node.0.handle(at(0), other, &0, acquire(1, 1)), refused);
    assert_eq!(node.0.high(other), Err(Refusal::NotAdmitted));
    node.0.propose(other, 7, MAX_TTL).unwrap();
    assert_eq!(node.0.handle(at(0), other, &0, acquire(1, 1)), refused);
    assert!(!node.0.admit(other, 8, 0).unwrap().unwrap().admitted);
    assert!(node.0.admit(other, 7, 0).unwrap().unwrap().admitted);
    assert!(matches!(node.0.handle(at(0), other, &0, acquire(1, 1)), NodeReply::Granted(_)));
    node.0.forget();
    assert_eq!(node.0.admit(other, 7, 0), Ok(None));
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let mut node = One::new();
    let long = Op::Acquire { attempt: id(1), ttl: MAX_TTL * 2, proposal: token(1) };
    node.says(0, long, NodeReply::Refused(Refusal::TtlTooLong { max_ttl: MAX_TTL }));
    let hour = AHEAD.as_micros() as u64;
    node.says(1, acquire(1, hour + 1_000_001), NodeReply::Refused(Refusal::ClockAhead));
    node.says(1, acquire(1, hour + 1_000_000), NodeReply::Granted(token(hour + 1_000_000)));
    node.0.admit(P, 5, Token::MAX.get()).unwrap();
    assert_eq!(node.0.handle(at(0), P, &1, acquire(2, 1)), NodeReply::Refused(Refusal::UsedUp));
}
