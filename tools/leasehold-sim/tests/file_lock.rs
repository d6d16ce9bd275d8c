//! The file engine's lock holds in every order of system calls, and the model finds each planted bug.

use leasehold_sim::file_model::{Bug, EXCLUSION, ORDER, RUNS, Setup};
use leasehold_sim::search::breaks;
use stateright::{Checker, Model};

/// Two processes that acquire the lock once each, and two that run `forget`.
const TWO_AND_TWO: Setup =
    Setup { holders: 2, holds: 1, forgetters: 2, deaths: 0, ahead: 0, bug: None };

/// With the bug the promise is broken; without it, within the same bound, it is not.
#[track_caller]
fn found(bug: Bug, promise: &'static str, setup: Setup) {
    assert!(breaks(Setup { bug: Some(bug), ..setup }, promise), "{bug:?} was not found");
    assert!(!breaks(setup, promise), "broken without {bug:?}");
}

#[test]
fn the_file_lock_holds_in_every_order_of_system_calls() {
    for (name, setup) in RUNS {
        let checker = setup.checker().threads(2).spawn_bfs().join();
        println!("{name}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
        assert!(checker.is_done());
        checker.assert_properties();
    }
}

#[test]
fn a_forget_that_does_not_check_the_path_makes_two_holders() {
    found(Bug::ForgetIgnoresPath, EXCLUSION, TWO_AND_TWO);
}

#[test]
fn a_holder_that_does_not_check_the_path_makes_two_holders() {
    found(Bug::HolderIgnoresPath, EXCLUSION, Setup { forgetters: 1, ..TWO_AND_TWO });
}

#[test]
fn a_forget_that_does_not_check_the_token_makes_tokens_go_back() {
    let setup = Setup { holders: 2, forgetters: 1, ahead: 3, ..TWO_AND_TWO };
    found(Bug::ForgetIgnoresToken, ORDER, setup);
}
