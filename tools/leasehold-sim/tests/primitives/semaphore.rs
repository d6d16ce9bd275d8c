//! The semaphore.

use leasehold_proto::client;
use leasehold_proto::semaphore::Bug::*;
use leasehold_sim::primitive_model::{Fault, Setup, Stay, names};
use leasehold_sim::semaphore_model::Semaphore;
use leasehold_sim::semaphore_model::runs::{CAPPED, ONE, RUNS, TWICE, TWO};

use super::Bug::{Client, Record};
use super::{found, holds};

type Model = Setup<Semaphore<2>>;

/// Two slots, and no fault.
const PLAIN: Model = Setup { limit: 2, polls: true, ..Setup::PLAIN };
/// One slot.
const SINGLE: Model = Setup { limit: 1, ..PLAIN };

#[test]
fn the_protocol_holds_in_every_small_run() {
    holds(RUNS);
    holds(CAPPED);
}

#[test]
fn the_slots_above_a_lowered_limit_count() {
    let setup = Setup { clients: &[ONE, ONE, ONE], changes: &[1], ..PLAIN };
    found(Record(OnlyFreeSlotsCount), names::LIMIT, setup);
}

#[test]
fn an_offer_is_not_granted_again_above_a_lowered_limit() {
    let setup = Setup { clients: &[ONE, ONE, ONE], changes: &[1], ticks: 1, ..PLAIN };
    found(Record(LateOfferIgnoresLimit), names::LIMIT, setup);
}

#[test]
fn a_late_change_of_the_limit_undoes_no_later_one() {
    let kinds = &[Fault::TimeLimit];
    let setup = Setup { clients: &[ONE], changes: &[1, 3], faults: 1, kinds, ..PLAIN };
    found(Record(LimitIgnoresVersion), names::UNDONE, setup);
}

#[test]
fn a_dead_waiter_for_many_slots_does_not_keep_others_from_free_ones() {
    let (kinds, stay): (&[Fault], _) = (&[Fault::Crash], Stay::ForEver);
    let clients = &[ONE, TWO, ONE];
    let setup = Setup { clients, faults: 1, kinds, stay, bound: 4, ..PLAIN };
    found(Record(WaitersNeverLapse), names::SETTLES, setup);
}

#[test]
fn no_small_waiter_passes_a_large_one() {
    found(Record(SmallPassesFirst), names::OVERTAKEN, Setup { clients: &[ONE, TWO, ONE], ..PLAIN });
}

#[test]
fn a_waiter_that_leaves_lets_the_next_one_in_at_once() {
    let (kinds, stay): (&[Fault], _) = (&[Fault::Leave], Stay::ForEver);
    // Otherwise the client that leaves sends another end, which serves the others.
    let setup = Setup { clients: &[ONE, TWO, ONE], faults: 1, kinds, stay, mute: true, ..PLAIN };
    found(Record(LeavingServesNone), names::SETTLES, setup);
}

#[test]
fn a_higher_limit_lets_waiters_in_at_once() {
    let setup = Setup { clients: &[ONE, ONE], changes: &[2], stay: Stay::ForEver, ..SINGLE };
    found(Record(NewLimitServesNone), names::SETTLES, setup);
}

#[test]
fn the_slot_of_a_waiter_that_died_with_its_offer_comes_back() {
    let kinds = &[Fault::Crash];
    let setup = Setup { clients: &[TWICE, ONE], faults: 1, kinds, bound: 3, ..SINGLE };
    found(Record(OffersAreNotReaped), names::SETTLES, setup);
}

#[test]
fn the_tokens_of_a_slot_grow() {
    let setup = Setup { clients: &[ONE, ONE], ticks: 2, bound: 3, ..SINGLE };
    found(Record(SlotTokensNotRaised), names::ORDER, setup);
}

#[test]
fn a_late_request_of_an_ended_attempt_is_refused() {
    let setup = Setup { clients: &[ONE], faults: 1, kinds: &[Fault::Leave], ..SINGLE };
    found(Record(TombstoneIgnored), names::ENDED, setup);
    found(Client(client::Bug::NeverSuspect), names::ENDED, setup);
}

#[test]
fn a_slot_above_a_lowered_limit_is_there_when_the_limit_grows_again() {
    let setup = Setup { clients: &[TWO, TWO], changes: &[1, 2], bound: 1, ..PLAIN };
    found(Record(SlotsAboveLimitAreDropped), names::SETTLES, setup);
}

#[test]
fn the_validity_of_a_permit_counts_from_before_its_request_or_push() {
    let setup = Setup { clients: &[TWICE, ONE], ticks: 1, ..SINGLE };
    found(Client(client::Bug::PushCountsFromReceipt), names::EXCLUSION, setup);
    found(Client(client::Bug::EarlierPushIsBelieved), names::EXCLUSION, setup);
    let setup = Setup { clients: &[ONE, ONE], ticks: 2, ..SINGLE };
    found(Client(client::Bug::ValidityCountsFromTheAnswer), names::EXCLUSION, setup);
}

#[test]
fn an_end_is_repeated_until_it_is_answered() {
    let setup = Setup { clients: &[ONE], faults: 1, kinds: &[Fault::TimeLimit], ..SINGLE };
    found(Client(client::Bug::EndIsSentOnce), names::ORPHAN, setup);
}
