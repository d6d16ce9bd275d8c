//! The shared scripts answer and do the same as the read-write record of `leasehold-proto`, in random
//! steps of readers and writers: late and repeated requests, conversions, unreachable clients, lost
//! keys. In some seeds writers use the scripts of exclusive locks first, as the engine does.

mod expected;
mod steps;

use super::{LARGE, SMALL, compare, one_by_one};
use expected::Expected;
use steps::random;

pub(super) async fn the_shared_scripts_and_the_record_say_the_same_in_random_steps() {
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
