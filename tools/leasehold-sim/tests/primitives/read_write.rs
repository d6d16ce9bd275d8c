//! The read-write lock.

use leasehold_proto::client;
use leasehold_proto::read_write::Bug::*;
use leasehold_sim::primitive_model::{CacheBug, Fault, Setup, Stay, Use, Want, names};
use leasehold_sim::read_write_model::ReadWrite;
use leasehold_sim::read_write_model::runs::{
    CACHING, CAPPED, CONVERSIONS, D, R, RR, RRW, RUNS, RW, U, UR, W,
};

use super::Bug::{Cache, Client, Record};
use super::{finds, found, holds};

type Model = Setup<ReadWrite<2>>;

const PLAIN: Model = Setup::PLAIN;
/// A writer and then a reader of one client.
const WR: &[Use] = &[Use::Hold(Want::Write), Use::Hold(Want::Read)];

const fn fault(kinds: &'static [Fault]) -> Model {
    Setup { faults: 1, kinds, ..PLAIN }
}

#[test]
fn the_protocol_holds_in_every_small_run() {
    holds(RUNS);
    holds(CAPPED);
}

#[test]
fn conversions_and_local_readers_hold_in_every_small_run() {
    holds(CONVERSIONS);
}

#[test]
fn no_reader_joins_while_a_writer_waits() {
    let setup = Setup { clients: &[R, R, W], ..PLAIN };
    found(Record(ReaderJoinsPastQueuedWriter), names::OVERTAKEN, setup);
}

#[test]
fn a_reader_extends_its_own_lease_only() {
    let setup = Setup { clients: &[R, R], ticks: 1, ..PLAIN };
    found(Record(OneExpiryForAllMembers), names::PROLONGED, setup);
    let setup = Setup { clients: &[W, R, R], ..PLAIN };
    found(Record(ConfirmationConfirmsAll), names::PROLONGED, setup);
}

#[test]
fn a_release_that_is_repeated_ends_no_other_readers_lease() {
    let setup = Setup { clients: &[R, R, W], ..fault(&[Fault::TimeLimit]) };
    found(Record(ReadersAreCounted), names::EXCLUSION, setup);
}

#[test]
fn an_upgrade_that_was_refused_twice_never_succeeds_later() {
    let setup = Setup { clients: &[U, R], ..fault(&[Fault::TimeLimit]) };
    found(Record(RefusedUpgradeIsNotSealed), names::ENDED, setup);
}

#[test]
fn a_reader_that_has_not_confirmed_its_offer_reads() {
    let setup = Setup { clients: &[W, U, R], ..PLAIN };
    found(Record(UpgradeIgnoresOffers), names::EXCLUSION, setup);
}

#[test]
fn no_upgrade_passes_a_queued_writer() {
    found(Record(UpgradePassesQueue), names::OVERTAKEN, Setup { clients: &[U, W], ..PLAIN });
}

#[test]
fn an_upgrade_remembers_the_readers_that_lost_their_leases() {
    let setup = Setup { clients: &[U, R], ticks: 2, ..PLAIN };
    found(Record(UpgradeForgetsLostReaders), names::VERDICT, setup);
}

#[test]
fn a_conversion_has_a_token_of_its_own() {
    found(Record(UpgradeKeepsToken), names::ORDER, Setup { clients: &[U], ..PLAIN });
    found(Record(DowngradeKeepsToken), names::ORDER, Setup { clients: &[D], ..PLAIN });
}

#[test]
fn a_downgrade_is_one_step() {
    found(Record(DowngradeQueuesAgain), names::DOWNGRADE, Setup { clients: &[D, W], ..PLAIN });
}

/// Readers stay until they learn that a writer waits.
const GREEDY: Model = Setup { stay: Stay::UntilWanted, ..PLAIN };

#[test]
fn a_reader_that_has_downgraded_knows_that_a_writer_waits() {
    found(Record(DowngradeHidesWaiters), names::SETTLES, Setup { clients: &[D, W], ..GREEDY });
}

#[test]
fn a_reader_that_is_granted_its_lease_knows_that_a_writer_waits() {
    let setup = Setup { clients: &[W, R, W], ..GREEDY };
    let setup = Setup { faults: 1, kinds: &[Fault::Crash], bound: 2, ..setup };
    found(Record(GrantHidesWaiters), names::SETTLES, setup);
}

#[test]
fn a_lost_message_that_a_writer_waits_is_made_good() {
    let setup = Setup { clients: &[R, W], faults: 1, kinds: &[Fault::LostPush], ..GREEDY };
    found(Record(WaitersAreAnnouncedOnce), names::SETTLES, Setup { bound: 2, ..setup });
}

#[test]
fn a_message_that_overtakes_the_grant_is_remembered() {
    let bug = client::Bug::WantedBeforeGrantIsForgotten;
    found(Client(bug), names::SETTLES, Setup { clients: &[R, W], ..GREEDY });
}

#[test]
fn the_last_queued_writer_that_leaves_lets_readers_in_at_once() {
    let setup = Setup { clients: &[R, W, R], ..fault(&[Fault::Leave]) };
    let setup = Setup { stay: Stay::ForEver, ..setup };
    found(Record(LeavingWriterAdmitsNoReader), names::SETTLES, setup);
}

#[test]
fn a_dead_queued_writer_does_not_keep_readers_out_for_ever() {
    let setup = Setup { clients: &[R, R, W], ..fault(&[Fault::Crash]) };
    let setup = Setup { stay: Stay::ForEver, polls: true, waiter_lease: 3, bound: 4, ..setup };
    found(Record(WaitersNeverLapse), names::SETTLES, setup);
}

#[test]
fn the_first_waiter_learns_that_the_longest_lease_has_ended() {
    let setup = Setup { clients: &[R, R, W], ttls: &[4], first_to_fail: 1, ..PLAIN };
    let setup = Setup { faults: 1, kinds: &[Fault::Crash], bound: 2, ..setup };
    found(Record(LeavingMemberTellsNobody), names::SETTLES, setup);
}

#[test]
fn the_modes_take_turns() {
    let setup = Setup { clients: &[R, W, R], ..PLAIN };
    found(Record(ReadersAlwaysFirst), names::OVERTAKEN, setup);
    let setup = Setup { clients: &[W, R, W], ..PLAIN };
    found(Record(WritersAlwaysFirst), names::OVERTAKEN, setup);
}

#[test]
fn all_queued_readers_enter_together() {
    let setup = Setup { clients: &[WR, RW, R], concurrent: true, ..PLAIN };
    found(Record(OneReaderPerPhase), names::OVERTAKEN, setup);
}

#[test]
fn a_step_sends_a_bounded_number_of_messages() {
    let setup = Setup::<ReadWrite<1>> { clients: &[WR, RW, R], concurrent: true, ..Setup::PLAIN };
    found(Record(StepsAreNotCapped), names::WORK, setup);
}

#[test]
fn a_reader_that_has_left_is_not_told_of_another_readers_loss() {
    let setup = Setup { clients: &[R, R], ticks: 2, ..fault(&[Fault::TimeLimit]) };
    found(Record(AnotherReadersLossIsTold), names::VERDICT, setup);
}

#[test]
fn a_late_request_of_an_ended_attempt_is_refused() {
    let setup = Setup { clients: &[R], ..fault(&[Fault::Leave]) };
    found(Record(TombstonesAreIgnored), names::ENDED, setup);
    found(Client(client::Bug::NeverSuspect), names::ENDED, setup);
}

#[test]
fn no_task_joins_a_read_lease_that_becomes_a_write_lease() {
    let setup = Setup { clients: &[UR], concurrent: true, ..PLAIN };
    found(Client(client::Bug::JoinsDuringUpgrade), names::EXCLUSION, setup);
}

#[test]
fn a_client_ends_the_attempt_of_a_lost_downgrade() {
    let setup = Setup { clients: &[D, W], ticks: 2, ..fault(&[Fault::TimeLimit]) };
    found(Client(client::Bug::LostDowngradeEndsNothing), names::ORPHAN, setup);
}

#[test]
fn the_validity_of_a_lease_counts_from_before_its_request_or_push() {
    let setup = Setup { clients: &[W, R, W], ticks: 1, ..PLAIN };
    found(Client(client::Bug::PushCountsFromReceipt), names::EXCLUSION, setup);
    let setup = Setup { clients: &[R, W], ticks: 2, ..PLAIN };
    found(Client(client::Bug::ValidityCountsFromTheAnswer), names::EXCLUSION, setup);
}

#[test]
fn an_end_is_repeated_until_it_is_answered() {
    let setup = Setup { clients: &[R], ..fault(&[Fault::TimeLimit]) };
    found(Client(client::Bug::EndIsSentOnce), names::ORPHAN, setup);
}

#[test]
fn cached_read_leases_hold_in_every_small_run() {
    holds(CACHING);
}

/// Clients cache, and nothing goes wrong: a writer waits for no tick.
const CACHED: Model = Setup { caches: true, clients: &[RR, W], ..PLAIN };

/// A message that a writer waits may be lost, and is not repeated.
const MUTE: Model = Setup {
    faults: 1,
    kinds: &[Fault::LostPush],
    polls: true,
    record_bug: Some(WaitersAreAnnouncedOnce),
    ..CACHED
};

#[test]
fn a_cached_read_lease_is_taken_only_before_its_release_is_sent() {
    found(Cache(CacheBug::TakenAfterItsEnd), names::EXCLUSION, CACHED);
}

#[test]
fn no_reader_takes_a_cached_lease_after_its_deadline() {
    let setup = Setup { ticks: 2, bound: 2, ..CACHED };
    found(Client(client::Bug::CachedDeadlineIsIgnored), names::ORDER, setup);
}

#[test]
fn a_client_gives_a_cached_read_lease_to_a_writer_that_waits() {
    found(Cache(CacheBug::KeptThoughWanted), names::SETTLES, CACHED);
    found(Client(client::Bug::WantedLeaseIsCached), names::SETTLES, CACHED);
}

#[test]
fn a_cached_read_lease_is_not_renewed() {
    // The other nets are the answers to renewals, and that the first waiter repeats its message.
    let mute = Setup { bound: 2, ..MUTE };
    finds(Setup { cache_bug: Some(CacheBug::RenewedBlindly), ..mute }, names::SETTLES, mute);
}

#[test]
fn a_client_gives_its_cached_read_lease_back_before_it_writes() {
    let mute = Setup { clients: &[RRW], ttls: &[4], bound: 1, ..MUTE };
    finds(Setup { cache_bug: Some(CacheBug::KeptFromOwnWriter), ..mute }, names::SETTLES, mute);
}
