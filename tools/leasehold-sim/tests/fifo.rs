//! A read-write lock in one queue holds in every order of events, and the model finds each planted bug.

use std::collections::BTreeSet;

use leasehold_sim::fifo_model::Program::{Downgrade, Read, Upgrade, Write};
use leasehold_sim::fifo_model::{
    BACKED, BELOW, Bug, EXCLUSION, ORDER, PHASE, Program, RUNS, SERVED, Setup, lagging, of,
};
use leasehold_sim::search::breaks;
use stateright::{Checker, Model};

/// With the bug the promise is broken; without it, within the same bound, it is not.
#[track_caller]
fn found(bug: Bug, promise: &'static str, programs: &'static [Program], faults: u8, removals: u8) {
    let setup = of(programs, faults, removals);
    assert!(breaks(Setup { bug: Some(bug), ..setup }, promise), "{bug:?} was not found");
    assert!(!breaks(setup, promise), "broken without {bug:?}");
}

#[test]
fn a_lock_in_one_queue_holds_in_every_order_of_events() {
    for (name, setup) in RUNS {
        let checker = setup.checker().threads(2).spawn_bfs().join();
        println!("{name}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
        assert!(checker.is_done());
        checker.assert_properties();
    }
}

#[test]
fn a_reader_that_reads_the_record_before_its_turn_has_the_token_of_an_earlier_phase() {
    found(Bug::ReadsRecordEarly, ORDER, &[Read, Write, Read], 0, 0);
}

#[test]
fn a_reader_that_reads_the_record_after_the_queue_is_beside_a_writer() {
    found(Bug::ReadsRecordLater, EXCLUSION, &[Upgrade, Read], 0, 0);
}

#[test]
fn two_readers_that_register_without_a_version_have_two_tokens() {
    found(Bug::IgnoresVersion, PHASE, &[Read, Read, Read], 0, 0);
}

#[test]
fn a_phase_that_a_writer_has_ended_is_not_joined() {
    found(Bug::JoinsEndedPhase, ORDER, &[Read, Write, Read], 0, 0);
}

#[test]
fn a_dead_readers_registration_is_not_stored_in_the_next_queue() {
    found(Bug::IgnoresOwnEntry, ORDER, &[Read, Write, Write, Read], 1, 1);
}

#[test]
fn a_reader_that_joins_unregistered_is_beside_another_token() {
    found(Bug::JoinsUnregistered, PHASE, &[Read, Read, Read], 0, 0);
}

#[test]
fn a_writer_that_waited_for_a_downgrade_needs_a_larger_token() {
    found(Bug::WriterIgnoresRecord, ORDER, &[Downgrade, Write], 0, 0);
}

#[test]
fn a_writer_that_is_first_at_once_looks_at_the_record_too() {
    found(Bug::FirstWriterIgnoresRecord, ORDER, &[Downgrade, Write], 0, 0);
}

#[test]
fn a_writer_registers_the_token_that_it_takes_from_the_record() {
    found(Bug::WriterDoesNotRegister, ORDER, &[Downgrade, Write, Write], 0, 0);
}

#[test]
fn an_upgrade_that_compares_no_version_is_beside_a_reader() {
    found(Bug::UpgradeIgnoresVersion, EXCLUSION, &[Upgrade, Read], 0, 0);
}

#[test]
fn a_late_copy_of_a_refused_upgrade_changes_nothing() {
    found(Bug::UpgradeIsNotSealed, BACKED, &[Upgrade, Read], 1, 0);
}

#[test]
fn a_conversion_has_a_token_of_its_own() {
    found(Bug::ConversionKeepsToken, ORDER, &[Upgrade], 0, 0);
}

#[test]
fn a_downgrade_keeps_its_place() {
    found(Bug::DowngradeLeavesPlace, EXCLUSION, &[Downgrade, Write], 0, 0);
}

#[test]
fn a_reader_looks_for_writers_beyond_the_entry_before_it() {
    found(Bug::ReaderLooksOneBack, EXCLUSION, &[Write, Read, Read], 0, 0);
}

#[test]
fn a_member_that_lags_behind_is_believed_only_if_it_shows_the_own_entry() {
    let setup = lagging(&[Write, Write, Write], 1);
    let bug = Some(Bug::BelievesMemberWithoutOwnEntry);
    assert!(breaks(Setup { bug, ..setup }, EXCLUSION));
    assert!(!breaks(setup, EXCLUSION));
}

#[test]
fn the_promises_have_different_names() {
    assert_eq!(BTreeSet::from([EXCLUSION, PHASE, ORDER, SERVED, BELOW, BACKED]).len(), 6);
}
