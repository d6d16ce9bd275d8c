//! The hand-off protocol holds in every small run, and the model finds each planted bug.

use leasehold_proto::handoff::TOKEN_LEAD;
use leasehold_sim::handoff_model::runs::{RUNS, Size};
use leasehold_sim::handoff_model::{Bug, Setup, Upkeep};
use leasehold_sim::search::breaks;
use stateright::{Checker, Model};

const EXCLUSION: &str = "at most one valid guard";
const UNIQUE: &str = "no token is used twice";
const ORDER: &str = "tokens grow";
const ENDED: &str = "an ended attempt owns nothing";
const ORPHAN: &str = "no lease without a client behind it";
const VERDICT: &str = "a release returns the true verdict";
const QUEUE: &str = "no waiter without a client behind it";
const REACHED: &str = "the lease is handed to those who can be reached";
const FIRST: &str = "the first in line asks by the end of the lease";
const WAITER: &str = "no waiter is lost";
const CACHED: &str = "a cached lease is given back to those who wait";
const LEAD: &str = "tokens stay near the clock";

/// Two clients, one attempt each, no fault, no time.
const SMALLEST: Setup = Setup {
    clients: 2,
    attempts: 1,
    faults: 0,
    ticks: 0,
    block: 1,
    bad_timing: false,
    silent: false,
    waiters_leave: true,
    rotate: false,
    local_queue: false,
    tasks: false,
    timers: false,
    prompt: false,
    caches: false,
    upkeep: Upkeep::NONE,
    bug: None,
};

/// With the bug the promise is broken, without it, within the same bound, it is not.
#[track_caller]
fn found(bug: Bug, promise: &'static str, setup: Setup) {
    assert!(breaks(Setup { bug: Some(bug), ..setup }, promise), "{bug:?} was not found");
    assert!(!breaks(setup, promise), "broken without {bug:?}");
}

#[test]
fn the_protocol_holds_in_every_small_run() {
    for run in RUNS.iter().filter(|run| run.size == Size::Small) {
        let checker = run.setup.checker().threads(2).spawn_bfs().join();
        let (states, depth) = (checker.unique_state_count(), checker.max_depth());
        println!("{}: {states} states, depth {depth}", run.name);
        assert!(checker.is_done());
        checker.assert_properties();
    }
}

#[test]
fn rotation_that_keeps_the_attempt_uses_a_token_twice() {
    let setup = Setup { attempts: 2, ticks: 3, rotate: true, waiters_leave: false, ..SMALLEST };
    found(Bug::RotateKeepsTheAttempt, UNIQUE, setup);
}

#[test]
fn push_that_counts_from_its_receipt_makes_two_holders() {
    let setup = Setup { attempts: 2, ticks: 2, waiters_leave: false, ..SMALLEST };
    found(Bug::PushCountsFromReceipt, EXCLUSION, setup);
}

#[test]
fn a_push_that_a_later_answer_has_overtaken_makes_two_holders() {
    let setup = Setup { attempts: 2, ticks: 2, waiters_leave: false, ..SMALLEST };
    found(Bug::EarlierPushIsBelieved, EXCLUSION, setup);
}

#[test]
fn an_end_that_is_not_repeated_leaves_a_lease_to_nobody() {
    found(Bug::EndIsSentOnce, ORPHAN, Setup { faults: 1, waiters_leave: false, ..SMALLEST });
}

#[test]
fn leaving_that_frees_offers_only_leaves_a_lease_without_holder() {
    found(Bug::GivingUpFreesOffersOnly, ORPHAN, SMALLEST);
}

#[test]
fn refusing_by_the_record_alone_queues_an_ended_attempt() {
    found(Bug::RefusedByTheRecordAlone, QUEUE, SMALLEST);
    found(Bug::RefusedByTheRecordAlone, ENDED, SMALLEST);
}

#[test]
fn repeated_release_reports_a_loss() {
    found(Bug::ReleaseAskedAgainIsLost, VERDICT, Setup { faults: 1, ..SMALLEST });
}

#[test]
fn head_without_a_timer_waits_for_ever() {
    let setup = Setup { clients: 3, faults: 1, waiters_leave: false, ..SMALLEST };
    found(Bug::OnlyTheHeadHasATimer, WAITER, setup);
}

#[test]
fn tokens_returned_for_another_lease_are_reserved_again() {
    let setup = Setup { clients: 1, attempts: 2, faults: 1, block: 2, rotate: true, ..SMALLEST };
    found(Bug::TokensGivenBackWheneverOwner, ORDER, setup);
    assert!(!breaks(Setup { bug: Some(Bug::RotateKeepsTheAttempt), ..setup }, ORDER));
}

#[test]
fn release_that_compares_the_base_leaves_the_repeated_grant() {
    let setup = Setup { faults: 1, ticks: 2, waiters_leave: false, ..SMALLEST };
    found(Bug::ReleaseComparesTheBase, ENDED, setup);
}

#[test]
fn a_release_that_does_not_compare_the_attempt_ends_another_lease() {
    found(Bug::ReleaseIgnoresTheAttempt, VERDICT, Setup { faults: 1, ..SMALLEST });
    let setup = Setup { attempts: 2, waiters_leave: false, faults: 1, ..SMALLEST };
    found(Bug::ReleaseIgnoresTheAttempt, EXCLUSION, setup);
}

#[test]
fn a_renewal_that_revives_gives_a_released_lease_back() {
    found(Bug::RenewalRevives, ENDED, Setup { ticks: 1, ..SMALLEST });
}

#[test]
fn a_tombstone_that_is_ignored_lets_a_late_ask_in() {
    found(Bug::TombstoneIgnored, ENDED, SMALLEST);
    found(Bug::TombstoneIgnored, QUEUE, SMALLEST);
}

#[test]
fn an_attempt_that_is_never_suspect_lets_a_late_ask_in() {
    found(Bug::NeverSuspect, ENDED, SMALLEST);
}

#[test]
fn a_waiter_that_cannot_be_reached_must_be_skipped() {
    found(Bug::UnreachableIsNotSkipped, REACHED, Setup { faults: 1, ..SMALLEST });
}

#[test]
fn a_new_first_in_line_that_is_not_told_reckons_with_an_earlier_lease() {
    let setup = Setup { clients: 3, ticks: 3, timers: true, ..SMALLEST };
    found(Bug::LeavingTellsNobody, FIRST, setup);
    found(Bug::DirectGrantTellsNobody, FIRST, Setup { waiters_leave: false, ..setup });
}

#[test]
fn validity_that_counts_from_the_answer_makes_two_holders() {
    let setup = Setup { ticks: 4, waiters_leave: false, ..SMALLEST };
    found(Bug::ValidityCountsFromTheAnswer, EXCLUSION, setup);
}

/// Two clients of two tasks each: the releaser exchanges for the next in line.
const LOCAL_QUEUE: Setup = Setup { attempts: 2, rotate: true, local_queue: true, ..SMALLEST };

#[test]
fn an_exchange_that_is_repeated_asks_for_one_that_has_gone() {
    let setup = Setup { clients: 1, faults: 1, ..LOCAL_QUEUE };
    found(Bug::ExchangeIsNotSuspect, ENDED, setup);
    found(Bug::ExchangeIsNotSuspect, QUEUE, LOCAL_QUEUE);
}

#[test]
fn whoever_inherits_an_attempt_inherits_its_late_asks() {
    found(Bug::InheritedIsNotSuspect, ENDED, Setup { clients: 1, ticks: 1, ..LOCAL_QUEUE });
}

#[test]
fn tokens_used_inside_a_process_are_not_given_back() {
    let setup = Setup { block: 2, waiters_leave: false, ..LOCAL_QUEUE };
    found(Bug::PassedTokensGivenBack, ORDER, setup);
}

#[test]
fn a_lost_lease_that_is_passed_on_uses_tokens_out_of_order() {
    let setup = Setup { block: 2, ticks: 4, waiters_leave: false, ..SMALLEST };
    found(Bug::LostLeaseIsPassedOn, ORDER, setup);
}

#[test]
fn a_lease_that_is_lost_before_the_next_task_takes_it_over_is_not_used() {
    let setup = Setup { block: 2, ticks: 4, tasks: true, waiters_leave: false, ..SMALLEST };
    found(Bug::LostLeaseIsPassedOn, ORDER, setup);
}

#[test]
fn after_a_refused_exchange_the_attempt_is_ended_alone() {
    let setup = Setup { clients: 1, attempts: 2, faults: 1, rotate: true, tasks: true, ..SMALLEST };
    found(Bug::RefusedExchangeEndsNothing, ORPHAN, setup);
}

/// Clients keep leases that no task holds, and have tokens for a second task.
const CACHES: Setup = Setup { block: 2, caches: true, waiters_leave: false, ..SMALLEST };

#[test]
fn a_cached_lease_that_is_taken_after_its_end_makes_two_holders() {
    found(Bug::CachedLeaseIsTakenAfterItsEnd, EXCLUSION, CACHES);
}

#[test]
fn a_cached_lease_that_is_taken_after_its_deadline_uses_tokens_out_of_order() {
    found(Bug::CachedDeadlineIsIgnored, ORDER, Setup { ticks: 4, ..CACHES });
}

#[test]
fn a_cached_lease_that_is_renewed_blindly_is_never_given_back() {
    found(Bug::CachedLeaseIsRenewedBlindly, WAITER, Setup { ticks: 1, faults: 1, ..CACHES });
}

#[test]
fn a_client_that_does_not_hear_of_a_waiter_keeps_the_lease_from_it() {
    found(Bug::WantedBeforeGrantIsForgotten, CACHED, CACHES);
    found(Bug::WantedLeaseIsCached, CACHED, CACHES);
}

#[test]
fn a_grant_that_hides_who_came_earlier_keeps_the_lease_from_them() {
    // The holder is paused, and the first of two waiters acquires by asking.
    let setup = Setup { clients: 3, ticks: 4, prompt: true, ..CACHES };
    found(Bug::GrantHidesWaiters, CACHED, setup);
}

#[test]
fn an_init_that_makes_the_tables_anew_makes_two_holders() {
    let upkeep = Upkeep { times: 1, init: true, ..Upkeep::NONE };
    let setup = Setup { waiters_leave: false, upkeep, ..SMALLEST };
    found(Bug::InitMakesAnew, EXCLUSION, setup);
}

#[test]
fn a_forget_that_ignores_the_highest_token_makes_tokens_go_back() {
    let upkeep = Upkeep { times: 1, forget: true, ahead: 60_000_000, ..Upkeep::NONE };
    found(Bug::CleanUpIgnoresTop, ORDER, Setup { ticks: 1, upkeep, ..SMALLEST });
}

#[test]
fn a_sweep_that_ignores_the_highest_token_makes_tokens_go_back() {
    let upkeep = Upkeep { times: 1, sweep: true, ahead: 60_000_000, ..Upkeep::NONE };
    found(Bug::CleanUpIgnoresTop, ORDER, Setup { ticks: 1, upkeep, ..SMALLEST });
}

#[test]
fn a_forget_that_removes_ended_attempts_lets_a_late_request_own_the_lock() {
    let upkeep = Upkeep { times: 1, forget: true, ..Upkeep::NONE };
    found(Bug::CleanUpIgnoresEnded, ENDED, Setup { ticks: 1, upkeep, ..SMALLEST });
}

#[test]
fn a_late_release_after_a_clean_up_is_not_told_released_for_a_lost_lease() {
    let upkeep = Upkeep { times: 1, forget: true, ..Upkeep::NONE };
    let setup = Setup { ticks: 3, prompt: true, waiters_leave: false, upkeep, ..SMALLEST };
    found(Bug::BlankRecordKnowsTheEnds, VERDICT, setup);
}

#[test]
fn a_forced_release_that_ignores_the_token_ends_another_lease() {
    let upkeep = Upkeep { times: 1, force: true, ..Upkeep::NONE };
    found(
        Bug::ForceIgnoresToken,
        EXCLUSION,
        Setup { attempts: 2, prompt: true, upkeep, ..SMALLEST },
    );
}

/// Two of three clients die in line, and one step removes one dead waiter.
const CAP: Setup =
    Setup { clients: 3, attempts: 2, faults: 2, prompt: true, waiters_leave: false, ..SMALLEST };

#[test]
fn dead_waiters_that_no_later_step_removes_keep_the_lock_from_the_living() {
    found(Bug::RestIsNeverRemoved, WAITER, CAP);
}

#[test]
fn a_waiter_behind_more_dead_ones_than_a_step_removes_asks_again_at_once() {
    found(Bug::CapTellsNobody, WAITER, Setup { rotate: true, ..CAP });
}

/// One client that reserves whole blocks of tokens and ends its attempts before it receives them.
const BURNS: Setup = Setup {
    clients: 1,
    attempts: 4,
    block: TOKEN_LEAD,
    prompt: true,
    upkeep: Upkeep { times: 1, empty: true, ..Upkeep::NONE },
    ..SMALLEST
};

#[test]
fn blocks_without_a_bound_carry_tokens_away_from_the_clock() {
    found(Bug::BlocksWithoutBound, LEAD, BURNS);
}

#[test]
fn blocks_without_a_bound_make_tokens_go_back_when_data_is_lost() {
    found(Bug::BlocksWithoutBound, ORDER, BURNS);
}
