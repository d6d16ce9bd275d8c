//! The scripts of a semaphore answer and do the same as the semaphore record of `leasehold-proto`, in
//! random steps: permits of several slots, changes of the limit, late and repeated requests,
//! unreachable clients, lost keys.

mod expected;
mod steps;

use leasehold_sim::shrink;

use super::seeds;
use super::server::Server;
use expected::Expected;
use steps::{Op, random};

/// The number of steps of one seed.
const STEPS: usize = 200;
/// The limit of a step in some seeds, so that steps reach it.
const SMALL: usize = 2;
/// The limit of a step in the others, as in the scripts.
const LARGE: usize = 256;

pub(super) async fn the_semaphore_scripts_and_the_record_say_the_same_in_random_steps() {
    let mut server = Server::start();
    for seed in seeds() {
        let differs = |server: &mut Server, steps: &[Op]| match seed % 2 {
            0 => difference::<LARGE>(server, seed, steps),
            _ => difference::<SMALL>(server, seed, steps),
        };
        let steps = random(seed, STEPS);
        if differs(&mut server, &steps).is_none() {
            continue;
        }
        let steps = shrink(steps, |steps| differs(&mut server, steps).is_some());
        let difference = differs(&mut server, &steps).unwrap_or_default();
        let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
        panic!("seed {seed}: {difference}\nin these steps:\n{}", steps.join("\n"));
    }
}

/// Returns the first difference, if any.
fn difference<const CAP: usize>(server: &mut Server, seed: u64, steps: &[Op]) -> Option<String> {
    server.clear(seed);
    let mut expected = Expected::<CAP>::new(seed);
    steps.iter().find_map(|op| {
        let different = expected.compare(server, *op).err()?;
        Some(format!("{different}\nin the step {op:?}"))
    })
}
