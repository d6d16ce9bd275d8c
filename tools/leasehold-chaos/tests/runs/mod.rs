//! What tests need to run the program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

pub(crate) const CHAOS: &str = env!("CARGO_BIN_EXE_leasehold-chaos");

/// The `leasehold` command of this tree. A test of the whole workspace has built it beside the program; a
/// test of this package alone has not, and it is built now.
pub(crate) fn leasehold() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let path = Path::new(CHAOS).with_file_name("leasehold");
        if !path.is_file() {
            let build = ["build", "-q", "--all-features", "-p", "leasehold-cli"];
            let built = Command::new(env!("CARGO")).args(build).status().unwrap();
            assert!(built.success() && path.is_file(), "{path:?} is not built");
        }
        path
    })
}

/// How many runs at once, of all tests: the servers and clients of one are busy without a pause, and a machine that has
/// more to do than it can answers no client in time.
const AT_ONCE: usize = 3;
static RUNS: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// A place among the runs, from the wait for it until it is dropped.
pub(crate) struct Place;

impl Place {
    pub(crate) fn take() -> Self {
        let (count, freed) = &RUNS;
        let count = count.lock().unwrap();
        *freed.wait_while(count, |count| *count == AT_ONCE).unwrap() += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *RUNS.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RUNS.1.notify_one();
    }
}
