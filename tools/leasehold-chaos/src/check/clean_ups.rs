//! Whether clean-ups removed what they may, and the tokens of these locks grow although their records are gone.

use super::Evidence;
use crate::TTL;
use crate::client::{CleanedUp, KEPT};
use crate::fault::Fault;
use crate::operator::{Operation, Outcome, Ran};
use crate::setup::SetUp;

/// One of so many clean-ups has found a record that it may remove.
const MANY: usize = 4;
/// A clock is set back by less than this.
const SET_BACK: u64 = 3 * TTL.as_nanos() as u64;

/// The clean-ups that did their work.
fn done(evidence: &Evidence) -> Vec<(&Ran, CleanedUp)> {
    let clean_ups = evidence.ran.iter().filter(|ran| ran.operation == Operation::CleanUp);
    let done = clean_ups.filter(|ran| ran.outcome() == Outcome::Done);
    done.filter_map(|ran| Some((ran, CleanedUp::read(&ran.stdout)?))).collect()
}

/// The records that were removed.
pub(super) fn removed(evidence: &Evidence) -> u64 {
    done(evidence).iter().map(|(_, one)| one.removed).sum()
}

/// What was wrong with them, in words.
pub(super) fn wrong(evidence: &Evidence) -> Vec<String> {
    let done = done(evidence);
    let mut wrong = Vec::new();
    for (at, (second, after)) in done.iter().enumerate() {
        let earlier = done[..at].iter().filter(|(first, _)| first.until < second.from);
        let same = earlier.filter(|(_, before)| before.name == after.name);
        for (first, before) in same.filter(|(_, before)| before.token >= after.token) {
            if is_set_back(evidence, first.until, second.from) {
                continue;
            }
            wrong.push(format!(
                "the token of the idle lock {} was {}, and later {}",
                after.name, before.token, after.token
            ));
        }
    }
    if removes_too_little(evidence.setup, &done) {
        wrong.push(format!("{} clean-ups removed no record that they may remove", done.len()));
    }
    wrong
}

/// Whether clocks were set back by more than the time between: a record that was removed before keeps no token.
fn is_set_back(evidence: &Evidence, from: u64, until: u64) -> bool {
    let backs = evidence.injected.iter().filter(|one| one.fault == Fault::ClockBack);
    let backs = backs.filter(|one| one.until >= from && one.from <= until).count() as u64;
    backs * SET_BACK > until - from
}

/// Whether none of them removed a record although there was one of an idle lock. The servers of etcd and ZooKeeper need
/// no operator for that.
fn removes_too_little(setup: SetUp, done: &[(&Ran, CleanedUp)]) -> bool {
    match setup {
        SetUp::Etcd | SetUp::EtcdTls | SetUp::Zookeeper => false,
        // What the one before has used is kept for a minute.
        _ if setup.has_admission() => done.windows(2).any(|two| {
            let [(before, _), (after, cleaned_up)] = two else { return false };
            after.from > before.until + KEPT && cleaned_up.removed == 0
        }),
        _ => done.len() >= MANY && done.iter().all(|(_, one)| one.removed == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;
    use crate::fault::Injected;
    use crate::operator::{Call, CommandEnd};

    fn ran(second: u64, removed: u64, token: u64) -> Ran {
        let from = second * SECOND;
        Ran {
            operation: Operation::CleanUp,
            call: Call::default(),
            from,
            until: from + 1,
            end: CommandEnd::Exit(0),
            stdout: format!(
                "{{\"removed\": {removed}, \"name\": \"idle-1\", \"token\": {token}}}\n"
            ),
            stderr: String::new(),
        }
    }

    fn seen(setup: SetUp, ran: Vec<Ran>) -> usize {
        wrong(&Evidence { setup, ran, ..Evidence::default() }).len()
    }

    #[test]
    fn tokens_that_fall_with_a_record_are_found() {
        let setup = SetUp::Redis;
        assert_eq!(seen(setup, vec![ran(1, 0, 5), ran(2, 1, 6), ran(3, 1, 7)]), 0);
        assert_eq!(seen(setup, vec![ran(1, 0, 5), ran(2, 1, 5)]), 1);
        assert_eq!(seen(setup, vec![ran(1, 0, 7), ran(2, 1, 8), ran(3, 1, 6)]), 2);
    }

    #[test]
    fn a_clock_that_was_set_back_explains_a_token_that_fell_soon_after() {
        let seen = |second| {
            let (from, until) = (1500 * crate::MS, 1500 * crate::MS);
            let injected = vec![Injected { fault: Fault::ClockBack, from, until }];
            let ran = vec![ran(1, 0, 5), ran(second, 1, 4)];
            wrong(&Evidence { ran, injected, ..Evidence::default() }).len()
        };
        assert_eq!((seen(3), seen(5)), (0, 1));
    }

    #[test]
    fn clean_ups_that_remove_nothing_are_found() {
        let all = |step: u64| (1..=4).map(|at| ran(at * step, 0, at)).collect::<Vec<_>>();
        assert_eq!(seen(SetUp::Redis, all(1)), 1);
        assert_eq!(seen(SetUp::Etcd, all(1)), 0);
        assert_eq!((seen(SetUp::Redlock3, all(1)), seen(SetUp::Redlock3, all(80))), (0, 1));
    }
}
