//! Violations of readers and permits, planted, are found, and nothing else is.

use super::*;
use crate::MS;
use crate::operator::{Call, CommandEnd};
use crate::part::Part;

/// Times in milliseconds.
fn hold(client: u32, part: Part, asked: u64, got: u64, until: u64, token: u64) -> Hold {
    let (lease, asked) = (got as u32, asked * MS);
    Hold { client, lease, asked, wanted: asked, got: got * MS, until: until * MS, token, part }
}

fn broken(holds: &[Hold]) -> Vec<String> {
    let verdict = Verdict::of(Evidence { holds: holds.to_vec(), ..Evidence::default() });
    verdict.broken().into_iter().filter(|one| one.ends_with(char::is_numeric)).take(1).collect()
}

fn slots(slots: &[u32]) -> Part {
    Part::of_slots(slots)
}

#[test]
fn readers_of_a_phase_go_together_and_no_writer_beside_them() {
    let one = hold(1, Part::Read, 0, 10, 50, 7);
    assert_eq!(broken(&[one, hold(2, Part::Read, 5, 20, 40, 7)]), [""; 0]);
    let beside = [one, hold(2, Part::Whole, 5, 20, 40, 8)];
    assert_eq!(broken(&beside).len(), 1, "a writer beside a reader");
    let another = Verdict::of(Evidence {
        holds: vec![one, hold(2, Part::Read, 5, 20, 40, 8)],
        ..Evidence::default()
    });
    assert_eq!(another.against(), 1, "a phase with two tokens");
    let after = [one, hold(2, Part::Whole, 60, 70, 80, 7)];
    assert_eq!(broken(&after), ["tokens used twice: 1"]);
    let back = [one, hold(2, Part::Whole, 5, 60, 70, 8), hold(3, Part::Read, 75, 80, 90, 7)];
    assert!(Verdict::of(Evidence { holds: back.to_vec(), ..Evidence::default() }).inversions > 0);
}

#[test]
fn permits_of_other_slots_go_together_and_may_have_one_token() {
    let one = hold(1, slots(&[0, 1]), 0, 10, 50, 7);
    assert_eq!(broken(&[one, hold(2, slots(&[2]), 5, 20, 40, 7)]), [""; 0]);
    let twice = [one, hold(2, slots(&[1]), 5, 20, 40, 8)];
    assert_eq!(Verdict::of(Evidence { holds: twice.to_vec(), ..Evidence::default() }).against(), 1);
    assert_eq!(broken(&[one, hold(2, slots(&[1]), 60, 70, 80, 7)]), ["tokens used twice: 1"]);
    // The token of another slot does not matter.
    assert_eq!(broken(&[one, hold(2, slots(&[3]), 60, 70, 80, 5)]), [""; 0]);
    let fallen = [one, hold(2, slots(&[1]), 60, 70, 80, 5)];
    assert_eq!(
        Verdict::of(Evidence { holds: fallen.to_vec(), ..Evidence::default() }).inversions,
        1
    );
}

#[test]
fn a_forced_release_explains_all_readers_of_its_phase_and_no_permit_of_another_slot() {
    let ran = Ran {
        operation: Operation::ForceRelease,
        call: Call { words: Vec::new(), token: Some(7), exits: vec![0] },
        from: 20 * MS,
        until: 25 * MS,
        end: CommandEnd::Exit(0),
        stdout: String::new(),
        stderr: String::new(),
    };
    let against = |holds: &[Hold]| {
        let (holds, ran) = (holds.to_vec(), vec![ran.clone()]);
        Verdict::of(Evidence { holds, ran, ..Evidence::default() }).against()
    };
    let readers = [hold(1, Part::Read, 0, 10, 50, 7), hold(2, Part::Read, 0, 11, 50, 7)];
    let writer = hold(3, Part::Whole, 12, 30, 40, 8);
    assert_eq!(against(&[readers[0], readers[1], writer]), 0);
    let permits = [hold(1, slots(&[0]), 0, 10, 50, 6), hold(2, slots(&[1]), 0, 11, 50, 7)];
    let next = hold(3, slots(&[0]), 12, 30, 40, 8);
    assert_eq!(against(&[permits[0], permits[1], next]), 1);
}
