//! A node of a quorum answers and does the same as `leasehold_proto::quorum::Node`, in random
//! steps: every kind of request, alone and many in one call, late and repeated, admissions,
//! restarts with other data and without, lost scripts and keys, and clocks that jump.
//!
//! `LEASEHOLD_SEEDS=1000-4000` tries other seeds than the default ones.

mod expected;
mod server;
mod steps;

use leasehold_sim::shrink;

use crate::scripts::seeds;
use crate::{Test, test};
use server::Server;
use steps::{Step, Task, Value, random};

pub(crate) const TESTS: &[Test] = &[
    test!(the_scripts_and_the_node_say_the_same_in_random_steps),
    test!(what_is_not_ours_stays_as_it_is_and_fails_no_other_step),
];

/// The number of steps of one seed.
const STEPS: usize = 200;

async fn the_scripts_and_the_node_say_the_same_in_random_steps() {
    let mut server = Server::start();
    let mut seen = std::collections::BTreeMap::new();
    for seed in seeds() {
        let steps = random(seed, STEPS);
        if difference(&mut server, seed, &steps, &mut seen).is_none() {
            continue;
        }
        let fails = |steps: &[Step]| {
            difference(&mut server, seed, steps, &mut Default::default()).is_some()
        };
        let steps = shrink(steps, fails);
        let difference = difference(&mut server, seed, &steps, &mut seen).unwrap_or_default();
        let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
        panic!("seed {seed}: {difference}\nin these steps:\n{}", steps.join("\n"));
    }
    println!("seeds {:?}: {seen:?}", seeds());
    // A test that never gets an answer does not cover it.
    for answer in "FGBECMRHNLDTPUW!".chars() {
        let times = seen.get(&answer).copied().unwrap_or_default();
        assert!(times > 0, "no answer was {answer}: {seen:?}");
    }
}

async fn what_is_not_ours_stays_as_it_is_and_fails_no_other_step() {
    let mut server = Server::start();
    let mut expected = expected::Expected::new(0, &mut server);
    for task in [Task::Propose(1, 60_000), Task::Admit(1, Value::Clock(-1000))] {
        expected.compare(&mut server, &[Step::Task(task, false)]).unwrap();
    }
    server.make_foreign();
    assert_eq!(expected.acquire_all(&mut server), ["G", "X", "X", "V", "G"]);
    assert_eq!(server.foreign(), "1 strange Q2");
}

/// Returns the first difference, if any. Counts the answers by their first letter.
fn difference(
    server: &mut Server,
    seed: u64,
    steps: &[Step],
    seen: &mut std::collections::BTreeMap<char, usize>,
) -> Option<String> {
    server.clear();
    let mut expected = expected::Expected::new(seed, server);
    for call in steps::calls(steps) {
        match expected.compare(server, call) {
            Ok(answers) => answers.chars().for_each(|answer| *seen.entry(answer).or_default() += 1),
            Err(difference) => return Some(format!("{difference}\nin the call {call:?}")),
        }
    }
    None
}
