//! The scripts answer and do the same as the record of `leasehold-proto`, in random steps: one call
//! with one key or many, late and repeated requests, unreachable clients, lost keys, and keys with
//! data of another program.
//!
//! `LEASEHOLD_SEEDS=1000-4000` tries other seeds than the default ones.

mod call;
mod expected;
mod messages;
mod semaphore;
mod server;
mod shared;
mod steps;

// The scripts that the engine loads.
#[allow(dead_code, reason = "the engine uses the rest")]
#[path = "../../src/script.rs"]
pub(crate) mod code;

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use leasehold_sim::shrink;

use crate::{Test, test};
use call::calls;
use semaphore::the_semaphore_scripts_and_the_record_say_the_same_in_random_steps;
use server::Server;
use shared::the_shared_scripts_and_the_record_say_the_same_in_random_steps;
use steps::{Step, random};

pub(crate) const TESTS: &[Test] = &[
    test!(the_scripts_and_the_record_say_the_same_in_random_steps),
    test!(the_shared_scripts_and_the_record_say_the_same_in_random_steps),
    test!(the_semaphore_scripts_and_the_record_say_the_same_in_random_steps),
];

/// How long records of unused names stay.
const RETAIN: Duration = Duration::from_secs(2 * 3600);
/// How long a record outlives its lease at least.
const KEPT_MS: u64 = 6_300_000;
/// The number of steps of one seed.
const STEPS: usize = 200;
/// The default seeds: some 20,000 steps.
const SEEDS: Range<u64> = 0..100;

/// The limit of a step in some seeds, so that steps reach it.
const SMALL: usize = 2;
/// The limit of a step in the others, as in the scripts.
const LARGE: usize = 256;

async fn the_scripts_and_the_record_say_the_same_in_random_steps() {
    compare(random, difference);
}

/// Compares the scripts with the record in the random steps of each seed. After a difference it shows the fewest
/// steps that lead to one.
fn compare<S: Clone + Debug>(
    random: impl Fn(u64, usize) -> Vec<S>,
    difference: impl Fn(&mut Server, u64, &[S]) -> Option<String>,
) {
    let mut server = Server::start();
    for seed in seeds() {
        let steps = random(seed, STEPS);
        if difference(&mut server, seed, &steps).is_none() {
            continue;
        }
        let steps = shrink(steps, |steps| difference(&mut server, seed, steps).is_some());
        let difference = difference(&mut server, seed, &steps).unwrap_or_default();
        let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
        panic!("seed {seed}: {difference}\nin these steps:\n{}", steps.join("\n"));
    }
}

/// Returns the first difference of steps that are a call each, if any.
fn one_by_one<S: Copy + Debug>(
    server: &mut Server,
    seed: u64,
    steps: &[S],
    mut compare: impl FnMut(&mut Server, S) -> Result<(), String>,
) -> Option<String> {
    server.clear(seed);
    steps.iter().find_map(|step| {
        let different = compare(server, *step).err()?;
        Some(format!("{different}\nin the step {step:?}"))
    })
}

/// Returns the first difference, if any.
fn difference(server: &mut Server, seed: u64, steps: &[Step]) -> Option<String> {
    server.clear(seed);
    let mut expected = expected::Expected::new(seed);
    for call in calls(steps) {
        if let Err(difference) = expected.compare(server, call) {
            return Some(format!("{difference}\nin the call {call:?}"));
        }
    }
    None
}

pub(crate) fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("LEASEHOLD_SEEDS") else { return SEEDS };
    let (from, to) = text.split_once('-').expect("LEASEHOLD_SEEDS=FROM-TO");
    from.parse().unwrap()..to.parse().unwrap()
}
