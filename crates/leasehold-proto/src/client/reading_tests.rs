//! A shared read lease, and its conversions, driven by hand.

use core::time::Duration;

use super::super::{AfterConversion, Conversion, PendingAttempt, Reply};
use super::*;
use crate::client::{AfterReply, Granted};
use crate::read_write::{Converted, Mode};
use crate::{ClientId, Terms, TokenBlock};

fn at(seconds: u64) -> Now {
    Now { steady_ns: seconds * 1_000_000_000, wall_ns: 0 }
}

fn attempt(sequence: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(1), sequence, 0)
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn lease() -> Lease {
    let ttl = Duration::from_secs(30);
    let terms = Terms { ttl, renew_after: Some(ttl / 3), max_hold: None, session: false };
    let mut lease = Lease::ask(at(0), terms);
    lease.handle_granted(at(0), None, false, 0).unwrap();
    lease
}

fn shared() -> SharedRead {
    SharedRead::new(attempt(1), token(7), false, false, Sound)
}

#[test]
fn tasks_join_without_a_call_and_the_last_one_ends_the_lease() {
    let (mut shared, lease) = (shared(), lease());
    assert_eq!(shared.join(&lease, at(1), false), Some(token(7)));
    assert_eq!(shared.leave(), None);
    let end = shared.leave().unwrap();
    assert_eq!((end.attempt, end.base), (attempt(1), Some(token(7))));
}

#[test]
fn no_task_joins_a_lease_that_is_over_or_while_a_task_waits_to_write() {
    let (mut shared, lease) = (shared(), lease());
    assert_eq!(shared.join(&lease, at(1), true), None);
    assert_eq!(shared.join(&lease, at(30), false), None);
    assert_eq!(shared.readers(), 1);
}

#[test]
fn a_lease_that_a_writer_waits_for_stays_shut() {
    let (mut shared, lease) = (shared(), lease());
    shared.handle_wanted();
    assert_eq!(shared.join(&lease, at(1), false), None);
    assert_eq!(shared.try_upgrade(attempt(2), &lease, at(1)), None);
    shared.handle_upgrade_refused(false);
    assert!(shared.is_shut());
}

#[test]
fn no_task_joins_a_lease_whose_last_reader_has_left() {
    let (mut shared, lease) = (shared(), lease());
    assert!(shared.leave().is_some());
    assert_eq!(shared.join(&lease, at(1), false), None);
}

#[test]
fn a_client_gives_a_lease_back_that_a_writer_waits_for_or_may_wait_for() {
    let lease = lease();
    assert!(!shared().is_wanted(false));
    assert!(shared().is_wanted(true), "a task of this process waits");
    let mut told = shared();
    told.handle_wanted();
    assert!(told.is_wanted(false));
    let mut missed = shared();
    missed.handle_missed();
    assert!(missed.is_wanted(false) && missed.join(&lease, at(1), false).is_some());
}

#[test]
fn a_message_before_the_grant_is_remembered() {
    let mut pending = PendingAttempt::new(attempt(1), Sound);
    pending.handle_sent();
    pending.handle_wanted();
    let granted = |wanted| {
        let tokens = TokenBlock::single(token(7));
        Granted { tokens, until: None, offer: false, wanted, slots: Vec::new() }
    };
    let after = pending.handle_reply(at(0), Reply::<()>::Granted(granted(false)));
    assert_eq!(after, AfterReply::Hold(granted(true)));
}

#[test]
fn no_task_joins_during_an_upgrade_and_a_refusal_opens_the_lease_again() {
    let (mut shared, lease) = (shared(), lease());
    shared.join(&lease, at(1), false);
    assert_eq!(shared.try_upgrade(attempt(2), &lease, at(1)), None, "another task reads");
    shared.leave();
    let mut upgrade = shared.try_upgrade(attempt(2), &lease, at(1)).unwrap();
    assert_eq!(shared.join(&lease, at(1), false), None);
    upgrade.handle_sent();
    let refused = upgrade.handle_reply(Converted::Refused { waiters: 0 });
    assert_eq!(refused, AfterConversion::Refused { wanted: false });
    shared.handle_upgrade_refused(false);
    assert!(shared.join(&lease, at(1), false).is_some());
}

#[test]
fn a_conversion_without_an_answer_is_repeated_and_its_new_attempt_is_suspect() {
    let mut down = Conversion::downgrade(shared().end(), attempt(2), Sound);
    down.handle_sent();
    assert!(!down.request().again && down.is_asking());
    down.handle_unanswered();
    down.handle_sent();
    assert!(down.request().again);
    assert!(down.handle_wanted(attempt(1)) && !down.handle_wanted(attempt(3)));
    let tokens = TokenBlock::single(token(8));
    let after = down.handle_reply(Converted::Granted { tokens, waiters: 0 });
    assert_eq!(after, AfterConversion::Granted { tokens, wanted: true, suspect: true });
}

#[test]
fn a_lost_downgrade_ends_what_the_engine_may_know() {
    let down = Conversion::downgrade(shared().end(), attempt(2), Sound);
    assert_eq!(down.handle_reply(Converted::Lost), AfterConversion::Lost(vec![shared().end()]));
    let mut again = down;
    again.handle_sent();
    again.handle_unanswered();
    let ends = again.abandon();
    assert!(ends[1].suspect && ends[1].attempt == attempt(2));
    assert_eq!(again.handle_reply(Converted::Lost), AfterConversion::Lost(ends.to_vec()));
}

#[test]
fn a_lost_upgrade_ends_the_reader_only() {
    let mut up = Conversion::upgrade(shared().end(), attempt(2), Sound);
    up.handle_sent();
    up.handle_unanswered();
    assert_eq!(up.request().mode, Mode::Write);
    assert_eq!(up.handle_reply(Converted::Lost), AfterConversion::Lost(vec![shared().end()]));
}
