//! Each violation, planted, is found, and nothing else is.

use super::*;
use crate::MS;
use crate::operator::{Call, CommandEnd, LIMIT};
use crate::part::Part;

/// Times in milliseconds.
fn hold(client: u32, asked: u64, got: u64, until: u64, token: u64) -> Hold {
    let lease = token as u32;
    let (asked, part) = (asked * MS, Part::Whole);
    Hold { client, lease, asked, wanted: asked, got: got * MS, until: until * MS, token, part }
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
        setup: if admission { SetUp::RedisStrict } else { SetUp::Redis },
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
    let seen = Verdict::of(Evidence { fenced: vec![unfenced.to_vec()], ..Evidence::default() });
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

fn ran(operation: Operation, from: u64, until: u64, end: CommandEnd) -> Ran {
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
    for end in [CommandEnd::Exit(0), CommandEnd::Exit(69), CommandEnd::Killed] {
        let seen = after(released(end), &two(), &[]);
        assert_eq!((seen.forced, seen.broken()), (1, Vec::new()), "{end}");
    }
    let refused = after(released(CommandEnd::Exit(1)), &two(), &[]);
    assert_eq!((refused.forced, refused.against()), (0, 1), "it changed nothing");
    let mut other = released(CommandEnd::Exit(0));
    other.call.token = Some(8);
    assert_eq!(after(other, &two(), &[]).against(), 1, "the second lease was ended");
    let late = ran(Operation::ForceRelease, 4150, 4160, CommandEnd::Exit(0));
    assert_eq!(after(late, &two(), &[]).against(), 1, "ended after the overlap began");
}

#[test]
fn a_stopped_client_may_take_a_lease_that_was_ended_by_force() {
    let released = |from| ran(Operation::ForceRelease, from, from + 60, CommandEnd::Exit(0));
    let next = hold(2, 4030, 4100, 4200, 8);
    let holds = [next, hold(1, 3900, 4150, 4160, 7)];
    let seen = after(released(4020), &holds, &[]);
    assert_eq!((seen.forced, seen.broken()), (1, Vec::new()));
    assert_eq!(after(released(4110), &holds, &[]).against(), 1, "ended after the next lease began");
    let above = [next, hold(1, 3900, 4150, 4160, 9)];
    assert_eq!(after(released(4020), &above, &[]).against(), 1, "another lease was ended");
}

#[test]
fn an_owner_that_believes_in_a_forced_lease_for_longer_than_a_ttl_is_found() {
    let holds = [hold(1, 3900, 4000, 5200, 7)];
    let released = || ran(Operation::ForceRelease, 4020, 4080, CommandEnd::Exit(0));
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
    let broken =
        after(ran(Operation::ForceRelease, 20, 30, CommandEnd::Exit(0)), &holds, &[]).broken();
    assert!(broken[0].starts_with("a lease that had ended"), "{broken:?}");
    let refused = after(ran(Operation::ForceRelease, 20, 30, CommandEnd::Exit(1)), &holds, &[]);
    assert_eq!(refused.broken(), [""; 0]);
}

#[test]
fn commands_that_end_as_they_may_not_are_found() {
    let broken = |end| after(ran(Operation::List, 1, 2, end), &[], &[]).broken();
    for end in [CommandEnd::Exit(0), CommandEnd::Exit(69), CommandEnd::Killed] {
        assert_eq!(broken(end), [""; 0], "{end}");
    }
    for end in [CommandEnd::Exit(101), CommandEnd::Signal, CommandEnd::TooLong] {
        let broken = broken(end);
        assert!(broken.len() == 1 && broken[0].contains(&end.to_string()), "{broken:?}");
    }
    let words =
        Ran { stdout: "no JSON\n".into(), ..ran(Operation::List, 1, 2, CommandEnd::Exit(0)) };
    assert_eq!(after(words, &[], &[]).broken().len(), 1);
    let escape =
        Ran { stderr: "\u{1b}[2K".into(), ..ran(Operation::List, 1, 2, CommandEnd::Exit(69)) };
    assert_eq!(after(escape, &[], &[]).broken().len(), 1);
    let slow = after(ran(Operation::List, 0, LIMIT / MS, CommandEnd::TooLong), &[], &[]);
    let tally = Tally { run: 1, killed: 1, longest: LIMIT, ..Tally::default() };
    assert_eq!(slow.commands, BTreeMap::from([(Operation::List, tally)]));
}

#[test]
fn a_command_in_calm_may_be_unavailable_near_a_switch_of_the_master_alone() {
    let broken = |from, exit| {
        let mut ran = ran(Operation::List, from, from + 100, CommandEnd::Exit(exit));
        ran.call.exits = vec![0];
        let switches = vec![Switch { from: 20_000 * MS, until: 20_100 * MS }];
        Verdict::of(Evidence { ran: vec![ran], switches, ..Evidence::default() }).broken().len()
    };
    assert_eq!([broken(9_000, 69), broken(11_000, 69), broken(30_000, 69)], [1, 0, 0]);
    assert_eq!([broken(31_000, 69), broken(20_000, 1), broken(20_000, 0)], [1, 1, 0]);
}

/// Client 2 gets the lock at the new master, and client 1 gets it from the old one at `got`.
fn at_two_masters(got: u64) -> Evidence {
    let holds = [hold(2, 3900, 4000, 4900, 7), hold(1, got - 50, got, got + 200, 8)];
    Evidence {
        holds: holds.to_vec(),
        injected: vec![fault(Fault::Failover, 500, 600)],
        setup: SetUp::Sentinel,
        switches: vec![Switch { from: 2400 * MS, until: 2450 * MS }],
        ..Evidence::default()
    }
}

#[test]
fn a_lease_from_the_old_master_long_after_the_switch_is_found() {
    assert_eq!(Verdict::of(at_two_masters(4500)).against(), 1);
    // The same moments after a switch at which clients may still leave.
    let mut early = at_two_masters(4500);
    early.switches = vec![Switch { from: 3400 * MS, until: 3450 * MS }];
    let seen = Verdict::of(early);
    assert_eq!((seen.against(), seen.overlaps), (0, BTreeMap::from([(Some(Fault::Failover), 1)])));
    // Both from before the switch.
    let mut before = at_two_masters(4500);
    before.switches = vec![Switch { from: 4600 * MS, until: 4650 * MS }];
    assert_eq!(Verdict::of(before).against(), 1);
    // Client 1 was stopped when the master changed, and went on at 4.2 s.
    let stopped = |client, until| Stopped { client, from: 2000 * MS, until: until * MS };
    for (client, until, against) in [(1, 4200, 0), (1, 3400, 1), (3, 4200, 1)] {
        let stopped = vec![stopped(client, until)];
        let seen = Verdict::of(Evidence { stopped, ..at_two_masters(4500) });
        assert_eq!(seen.against(), against, "{client} {until}");
    }
    let mut without = at_two_masters(4500);
    without.switches.clear();
    assert_eq!(Verdict::of(without).against(), 1, "a fault alone makes no second master");
}

#[test]
fn a_lease_that_was_passed_on_long_after_its_master_was_left_is_found() {
    // Begun before the switch, and passed on inside its process until 4.5 s: no renewal has succeeded.
    let passed = |token, got| Hold { lease: 1, ..hold(1, 2000, got, got + 900, token) };
    let mut evidence = at_two_masters(4500);
    evidence.holds =
        vec![passed(5, 2100), passed(6, 3500), passed(7, 4400), hold(2, 4500, 4600, 4700, 8)];
    evidence.holds[0].until = 3000 * MS;
    assert_eq!(Verdict::of(evidence).against(), 1);
}

/// Clients 1 and 2 wait in this order; when they get the lock.
fn waiting(first: u64, second: u64) -> Evidence {
    let queue = ["a", "b"].map(str::to_owned).to_vec();
    let looks = |at: u64| (1, Waiting { asked: (at - 1) * MS, at: at * MS, queue: queue.clone() });
    let granted = |client, got: u64| Granted { client, got: got * MS };
    let holds = [
        hold(3, 1, 2, 5100, 1),
        hold(1, 9, first, first + 20, 2),
        hold(2, 9, second, second + 20, 3),
    ];
    Evidence {
        holds: holds.to_vec(),
        queues: vec![looks(5000), looks(5100)],
        granted: BTreeMap::from([
            ("a".into(), granted(1, first)),
            ("b".into(), granted(2, second)),
        ]),
        ..Evidence::default()
    }
}

fn overtaken(mut evidence: Evidence) -> (Order, u64) {
    evidence.holds.sort_unstable_by_key(|hold| hold.got);
    let seen = Verdict::of(evidence);
    assert_eq!(seen.broken().iter().any(|one| one.contains("stood in line")), seen.overtaken > 0);
    (seen.order, seen.overtaken)
}

#[test]
fn a_waiter_that_is_overtaken_is_found() {
    let order = |pairs, overtaken, judged| Order { pairs, overtaken, judged };
    assert_eq!(overtaken(waiting(5200, 5300)), (order(1, 0, 1), 0));
    assert_eq!(overtaken(waiting(5300, 5200)), (order(1, 1, 1), 1));
    // The line was seen after the grant.
    assert_eq!(overtaken(waiting(5300, 4900)), (order(0, 0, 0), 0));
}

#[test]
fn an_overtaking_that_something_explains_is_counted_alone() {
    let counted = (Order { pairs: 1, overtaken: 1, judged: 0 }, 0);
    for (from, until) in [(5150, 5160), (900, 1100), (100, 9000)] {
        let faults = vec![fault(Fault::Reset, from, until)];
        let seen = overtaken(Evidence { injected: faults, ..waiting(5300, 5200) });
        assert_eq!(seen, counted, "{from}");
    }
    let after = vec![fault(Fault::Reset, 5400, 5500), fault(Fault::Reset, 100, 900)];
    assert_eq!(overtaken(Evidence { injected: after, ..waiting(5300, 5200) }).1, 1);
    // The first did not react, and the lock was free meanwhile.
    assert_eq!(overtaken(waiting(5800, 5700)), counted);
    // The first did not run.
    let mut silent = waiting(7300, 7200);
    silent.holds[0].until = 7100 * MS;
    assert_eq!(overtaken(silent), counted);
}

#[test]
fn losses_by_the_clock_are_counted() {
    let losses = Losses { before: 2, after: 1 };
    let seen = Verdict::of(Evidence { losses, ..Evidence::default() });
    assert_eq!((seen.losses, seen.broken()), (losses, Vec::new()));
}

#[test]
fn on_files_a_stopped_process_may_find_late_that_its_lock_was_removed() {
    // Client 1 had the lock at 4.0 s and was stopped until 6.2 s; the directory was removed at 4.5 s.
    let evidence = |setup| Evidence {
        holds: vec![hold(2, 5000, 6100, 6900, 8), hold(1, 3900, 6200, 6210, 7)],
        injected: vec![fault(Fault::Empty, 4500, 4510)],
        setup,
        ..Evidence::default()
    };
    assert_eq!(Verdict::of(evidence(SetUp::File)).against(), 0);
    assert_eq!(Verdict::of(evidence(SetUp::Redis)).against(), 1, "a clock ends the lease there");
}

#[test]
fn an_init_that_takes_newer_tables_is_found() {
    let seen = |setup, from, until| {
        let init = ran(Operation::Init, from, until, CommandEnd::Exit(0));
        let init = Ran { stdout: "{}".to_owned(), ..init };
        let injected = vec![fault(Fault::Newer, 1000, 4000)];
        Verdict::of(Evidence { setup, ran: vec![init], injected, ..Evidence::default() })
            .broken()
            .len()
    };
    assert_eq!(seen(SetUp::Postgres, 2000, 2100), 1);
    assert_eq!(seen(SetUp::Postgres, 1100, 1200), 0, "the version may not be written yet");
    assert_eq!(seen(SetUp::Postgres, 3400, 3600), 0, "it may be taken away");
    assert_eq!(seen(SetUp::Redis, 2000, 2100), 0);
}
