//! Each violation, planted, is found, and nothing else is.

use super::*;
use crate::MS;
use crate::operator::{Call, End, LIMIT};

/// Times in milliseconds.
fn hold(client: u32, asked: u64, got: u64, until: u64, token: u64) -> Hold {
    let lease = token as u32;
    Hold { client, lease, asked: asked * MS, got: got * MS, until: until * MS, token }
}

fn fault(fault: Fault, from: u64, until: u64) -> Injected {
    Injected { fault, from: from * MS, until: until * MS }
}

fn visit(token: u64, writes: bool, taken: bool, value: u64) -> Visit {
    Visit { token, writes, taken, value, ..Visit::default() }
}

fn verdict(holds: &[Hold], injected: &[Injected], admission: bool) -> Verdict {
    Verdict::of(Evidence {
        holds: holds.to_vec(),
        injected: injected.to_vec(),
        admission,
        ..Evidence::default()
    })
}

/// Client 2 gets the lock at 4.1 s while client 1 takes itself for the holder until 4.5 s.
const TWO: [(u32, u64, u64, u64, u64); 2] = [(1, 3900, 4000, 4500, 7), (2, 4050, 4100, 4200, 8)];

fn two() -> Vec<Hold> {
    TWO.iter()
        .map(|&(client, asked, got, until, token)| hold(client, asked, got, until, token))
        .collect()
}

#[test]
fn a_run_in_which_all_went_well_has_nothing_broken() {
    // Asked while the other held, given in the same moment.
    let holds = [hold(1, 0, 1, 5, 1), hold(2, 2, 5, 9, 2), hold(1, 6, 10, 20, 5)];
    let seen = verdict(&holds, &[], false);
    assert_eq!(seen.broken(), [""; 0]);
    assert_eq!((seen.acquisitions, seen.overlaps.len()), (3, 0));
}

#[test]
fn two_holders_at_once_are_found_whatever_stands_between_them() {
    assert_eq!(
        verdict(&two(), &[], false).broken(),
        [
            "overlaps against the promise: 1",
            "overlap: client 1 asked at -0.100 s, held from 0.000 s to 0.500 s with token 7; \
             client 2 asked at 0.050 s, held from 0.100 s to 0.200 s with token 8",
        ]
    );
    // One that began later and is long gone hides nothing.
    let long = [hold(1, 0, 1, 100, 1), hold(2, 2, 3, 4, 2), hold(3, 5, 50, 60, 3)];
    assert_eq!(verdict(&long, &[], false).against(), 2);
}

#[test]
fn a_server_that_forgets_allows_an_overlap_unless_it_is_kept_out() {
    let empty = [fault(Fault::Empty, 4020, 4080)];
    let seen = verdict(&two(), &empty, false);
    assert_eq!(seen.overlaps, BTreeMap::from([(Some(Fault::Empty), 1)]));
    assert_eq!(seen.broken(), [""; 0]);
    assert_eq!(verdict(&two(), &empty, true).against(), 1, "it has to wait until leases are over");
}

#[test]
fn a_fault_allows_no_overlap_before_it_or_long_after_it() {
    let after = [fault(Fault::Empty, 4150, 4160)];
    assert_eq!(verdict(&two(), &after, false).against(), 1);
    let before = [fault(Fault::Empty, 2900, 2950)];
    assert_eq!(verdict(&two(), &before, false).against(), 1);
    for kept in [Fault::Pause, Fault::Kill, Fault::Stop, Fault::Restart, Fault::Cut] {
        let during = [fault(kept, 4020, 4080)];
        assert_eq!(verdict(&two(), &during, false).against(), 1, "{kept}");
    }
}

#[test]
fn a_token_twice_and_a_token_that_falls_are_found() {
    let twice = [hold(1, 0, 1, 2, 7), hold(2, 0, 3, 4, 7)];
    assert_eq!(verdict(&twice, &[], false).broken(), ["tokens used twice: 1"]);
    let fallen = [hold(1, 0, 1, 2, 7), hold(2, 3, 4, 5, 6)];
    let broken = verdict(&fallen, &[], false).broken();
    assert_eq!((broken[0].as_str(), broken.len()), ("tokens that did not grow: 1", 2));
    // The second had asked before the first got it: its token may have been drawn before.
    let crossed = [hold(1, 0, 2, 3, 7), hold(2, 1, 4, 5, 6)];
    assert_eq!(verdict(&crossed, &[], false).broken(), [""; 0]);
    // Two holds lie between.
    let later =
        [hold(1, 0, 1, 2, 9), hold(2, 0, 3, 4, 3), hold(3, 1, 5, 6, 4), hold(4, 5, 7, 8, 8)];
    assert_eq!(verdict(&later, &[], false).inversions, 1);
}

#[test]
fn updates_that_are_lost_and_stale_writes_are_counted() {
    // Two have read 0, both write 1; the second writes late.
    let unfenced = [
        visit(1, false, true, 0),
        visit(2, false, true, 0),
        visit(2, true, true, 1),
        visit(1, true, true, 1),
    ];
    let seen = Updates::of(&unfenced);
    assert_eq!(seen, Updates { taken: 2, refused: 0, stale: 1, lost: 1 });
    let fenced = [&unfenced[..3], &[visit(1, true, false, 1)]].concat();
    assert_eq!(Updates::of(&fenced), Updates { taken: 1, refused: 1, stale: 0, lost: 0 });
    let seen = Verdict::of(Evidence { fenced: unfenced.to_vec(), ..Evidence::default() });
    let broken = ["stale writes taken by the fence: 1", "updates lost behind the fence: 1"];
    assert_eq!(seen.broken(), broken);
    let seen = Verdict::of(Evidence { unfenced: unfenced.to_vec(), ..Evidence::default() });
    assert_eq!(seen.broken(), [""; 0]);
}

#[test]
fn the_longest_time_without_a_holder_is_told_with_what_happened_in_it() {
    let holds = [hold(1, 0, 1, 2, 1), hold(1, 0, 10, 11, 2), hold(2, 0, 5000, 5001, 3)];
    let faults =
        [fault(Fault::Cut, 100, 900), fault(Fault::Stop, 5100, 5200), fault(Fault::Kill, 20, 20)];
    let seen = verdict(&holds, &faults, false);
    let gap = Gap { from: 10 * MS, until: 5000 * MS, faults: vec![Fault::Kill, Fault::Cut] };
    assert_eq!(seen.gap, gap);
}

#[test]
fn what_a_client_calls_wrong_is_broken() {
    let wrong = vec!["client 3: it is not done".to_owned()];
    let seen = Verdict::of(Evidence { wrong: wrong.clone(), ..Evidence::default() });
    assert_eq!(seen.broken(), wrong);
}

fn ran(operation: Operation, from: u64, until: u64, end: End) -> Ran {
    let call = Call { words: vec!["--json".to_owned()], token: Some(7), exits: vec![0, 1, 69] };
    let (from, until) = (from * MS, until * MS);
    Ran { operation, call, from, until, end, stdout: String::new(), stderr: String::new() }
}

fn after(ran: Ran, holds: &[Hold], injected: &[Injected]) -> Verdict {
    Verdict::of(Evidence {
        holds: holds.to_vec(),
        injected: injected.to_vec(),
        ran: vec![ran],
        ..Evidence::default()
    })
}

#[test]
fn a_forced_release_explains_an_overlap_with_its_own_lease_and_no_other() {
    let released = |end| ran(Operation::ForceRelease, 4020, 4080, end);
    for end in [End::Exit(0), End::Exit(69), End::Killed] {
        let seen = after(released(end), &two(), &[]);
        assert_eq!((seen.forced, seen.broken()), (1, Vec::new()), "{end}");
    }
    let refused = after(released(End::Exit(1)), &two(), &[]);
    assert_eq!((refused.forced, refused.against()), (0, 1), "it changed nothing");
    let mut other = released(End::Exit(0));
    other.call.token = Some(8);
    assert_eq!(after(other, &two(), &[]).against(), 1, "the second lease was ended");
    let late = ran(Operation::ForceRelease, 4150, 4160, End::Exit(0));
    assert_eq!(after(late, &two(), &[]).against(), 1, "ended after the overlap began");
}

#[test]
fn an_owner_that_believes_in_a_forced_lease_for_longer_than_a_ttl_is_found() {
    let holds = [hold(1, 3900, 4000, 5200, 7)];
    let released = || ran(Operation::ForceRelease, 4020, 4080, End::Exit(0));
    let broken = after(released(), &holds, &[]).broken();
    assert!(broken[0].starts_with("a lease that was ended by force"), "{broken:?}");
    let empty = [fault(Fault::Empty, 4500, 4510)];
    assert_eq!(after(released(), &holds, &empty).broken(), [""; 0], "the server forgot the end");
    let told = [hold(1, 3900, 4000, 5000, 7)];
    assert_eq!(after(released(), &told, &[]).broken(), [""; 0]);
}

#[test]
fn a_forced_release_of_a_lease_that_had_ended_is_found() {
    let holds = [hold(1, 0, 1, 5, 7), hold(2, 2, 6, 9, 8)];
    let broken = after(ran(Operation::ForceRelease, 20, 30, End::Exit(0)), &holds, &[]).broken();
    assert!(broken[0].starts_with("a lease that had ended"), "{broken:?}");
    let refused = after(ran(Operation::ForceRelease, 20, 30, End::Exit(1)), &holds, &[]);
    assert_eq!(refused.broken(), [""; 0]);
}

#[test]
fn commands_that_end_as_they_may_not_are_found() {
    let broken = |end| after(ran(Operation::List, 1, 2, end), &[], &[]).broken();
    for end in [End::Exit(0), End::Exit(69), End::Killed] {
        assert_eq!(broken(end), [""; 0], "{end}");
    }
    for end in [End::Exit(101), End::Signal, End::TooLong] {
        let broken = broken(end);
        assert!(broken.len() == 1 && broken[0].contains(&end.to_string()), "{broken:?}");
    }
    let words = Ran { stdout: "no JSON\n".into(), ..ran(Operation::List, 1, 2, End::Exit(0)) };
    assert_eq!(after(words, &[], &[]).broken().len(), 1);
    let escape = Ran { stderr: "\u{1b}[2K".into(), ..ran(Operation::List, 1, 2, End::Exit(69)) };
    assert_eq!(after(escape, &[], &[]).broken().len(), 1);
    let slow = after(ran(Operation::List, 0, LIMIT / MS, End::TooLong), &[], &[]);
    let tally = Tally { run: 1, killed: 1, longest: LIMIT, ..Tally::default() };
    assert_eq!(slow.commands, BTreeMap::from([(Operation::List, tally)]));
}
