//! How many threads a server needs.

/// Returns how many worker threads the runtime of a server should have: half of the processors, and at least one.
///
/// A request mostly waits for the store. With more threads, each request wakes several of them, and takes longer.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |all| (all.get() / 2).max(1))
}
