//! The scripts of a semaphore answer and do the same as the semaphore record of `leasehold-proto`, in
//! random steps: permits of several slots, changes of the limit, late and repeated requests,
//! unreachable clients, lost keys.

mod expected;
mod steps;

use super::{LARGE, SMALL, compare, one_by_one};
use expected::Expected;
use steps::random;

pub(super) async fn the_semaphore_scripts_and_the_record_say_the_same_in_random_steps() {
    compare(random, |server, seed, steps| match seed % 2 {
        0 => {
            let mut expected = Expected::<LARGE>::new(seed);
            one_by_one(server, seed, steps, |server, op| expected.compare(server, op))
        }
        _ => {
            let mut expected = Expected::<SMALL>::new(seed);
            one_by_one(server, seed, steps, |server, op| expected.compare(server, op))
        }
    });
}
