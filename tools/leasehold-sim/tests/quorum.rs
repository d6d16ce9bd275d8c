//! Redlock with tokens and admission holds in every small run, and the model finds each planted bug.

use leasehold_sim::handoff_model::runs::Size;
use leasehold_sim::quorum_model::runs::{
    FORGET, FORGETS, INIT, OLDER_DATA, PLAIN, ROLLED_BACK, RUNS, Run,
};
use leasehold_sim::quorum_model::{Bug, EVIDENCE, EXCLUSION, Maintenance, ORDER, Setup, UNIQUE};
use leasehold_sim::search::breaks;
use stateright::{Checker, Model};

/// One client with time to renew.
const RENEWS: Setup = Setup { clients: 1, renewals: 2, ticks: 3, down: 1, ..PLAIN };

/// With the bug the promise is broken; that it is not broken without it is seen by the runs.
#[track_caller]
fn found(bug: Bug, promise: &'static str, setup: Setup) {
    assert!(breaks(Setup { bug: Some(bug), ..setup }, promise), "{bug:?} was not found");
}

/// Makes all small runs with maintenance, or without.
fn small_runs(maintenance: bool) {
    let chosen = |run: &&Run| (run.setup.maintenance != Maintenance::NONE) == maintenance;
    for run in RUNS.iter().filter(|run| run.size == Size::Small).filter(chosen) {
        println!("{}", run.name);
        let checker = run.setup.checker().threads(2).spawn_bfs().join();
        println!("{} states", checker.unique_state_count());
        assert!(checker.is_done());
        checker.assert_properties();
    }
}

#[test]
fn the_protocol_holds_in_every_small_run() {
    small_runs(false);
}

#[test]
fn no_maintenance_breaks_a_promise_in_a_small_run() {
    small_runs(true);
}

#[test]
fn the_largest_granted_value_is_no_token() {
    let setup = Setup { clients: 1, attempts: 3, patient: true, ..PLAIN };
    found(Bug::NaiveMaximum, UNIQUE, setup);
    found(Bug::NaiveMaximum, ORDER, setup);
}

#[test]
fn a_commit_that_compares_nothing_is_no_commit() {
    found(Bug::CommitWithoutCompare, UNIQUE, Setup { proposals: 2, expiries: 1, ..PLAIN });
}

#[test]
fn a_majority_of_the_connected_nodes_is_none() {
    found(Bug::MajorityOfConnected, EXCLUSION, PLAIN);
}

#[test]
fn a_node_that_forgot_and_votes_makes_two_holders() {
    found(Bug::NoAdmission, EXCLUSION, Setup { forgets: 1, patient: true, ..PLAIN });
}

#[test]
fn recovery_without_waiting_makes_two_holders() {
    found(Bug::RecoveryWithoutWaiting, EXCLUSION, Setup { forgets: 1, patient: true, ..PLAIN });
}

#[test]
fn waiting_without_recovery_uses_tokens_again() {
    found(Bug::WaitingWithoutRecovery, ORDER, FORGETS);
}

#[test]
fn recovery_before_the_wait_uses_tokens_again() {
    found(Bug::RecoveryBeforeWaiting, ORDER, FORGETS);
}

#[test]
fn recovery_from_too_few_uses_tokens_again() {
    found(Bug::RecoveryFromTooFew, ORDER, FORGETS);
}

#[test]
fn a_bound_from_the_reply_makes_two_holders() {
    found(Bug::BoundFromTheReply, EXCLUSION, Setup { ticks: 2, down: 1, ..PLAIN });
    found(Bug::BoundFromTheReply, EVIDENCE, RENEWS);
}

#[test]
fn late_replies_make_a_lease_too_long() {
    found(Bug::LateRepliesAccepted, EVIDENCE, RENEWS);
}

#[test]
fn a_release_that_compares_nothing_takes_the_lock_from_another() {
    found(Bug::ReleaseComparesNothing, EXCLUSION, Setup { clients: 3, down: 1, ..PLAIN });
}

#[test]
fn init_without_an_answer_of_every_node_makes_two_holders() {
    found(Bug::InitSkipsTheSilent, EXCLUSION, INIT);
}

#[test]
fn init_past_nodes_that_vote_makes_two_holders() {
    found(Bug::InitSkipsVoters, EXCLUSION, INIT);
}

#[test]
fn a_forget_that_ignores_holders_makes_two_holders() {
    found(Bug::ForgetIgnoresHolders, EXCLUSION, FORGET);
}

#[test]
fn a_forget_that_drops_the_high_water_mark_uses_tokens_again() {
    found(Bug::ForgetDropsTokens, ORDER, FORGET);
}

#[test]
fn older_data_that_outweigh_what_was_recovered_use_tokens_again() {
    found(Bug::RecoveryForUnknownLocks, UNIQUE, OLDER_DATA);
}

/// What `docs/quorum.md` does not promise.
#[test]
fn older_data_under_the_same_process_id_break_the_promises() {
    assert!(breaks(ROLLED_BACK, EXCLUSION));
}
