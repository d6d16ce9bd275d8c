//! The names of what is measured, each with its unit.

/// A figure's name and unit, as the JSON has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
}

/// Acquisitions, each with its release, in a second.
pub(crate) const PAIRS_PER_S: Metric = Metric { name: "pairs_per_s", unit: "1/s" };
/// CPU time of the client's process for one of them.
pub(crate) const CLIENT_US_PER_PAIR: Metric = Metric { name: "client_us_per_pair", unit: "us" };
/// CPU time of the server's process for one of them.
pub(crate) const SERVER_US_PER_PAIR: Metric = Metric { name: "server_us_per_pair", unit: "us" };
/// Growth of the process for each guard that is held.
pub(crate) const BYTES_PER_LOCK: Metric = Metric { name: "bytes_per_lock", unit: "B" };
/// Growth of the process for each task that waits, the task itself included.
pub(crate) const BYTES_PER_WAITER: Metric = Metric { name: "bytes_per_waiter", unit: "B" };
/// CPU time of the client's process in a second in which nothing is acquired or released.
pub(crate) const CLIENT_MS_PER_S: Metric = Metric { name: "client_ms_per_s", unit: "ms/s" };
/// CPU time of the server's process in such a second.
pub(crate) const SERVER_MS_PER_S: Metric = Metric { name: "server_ms_per_s", unit: "ms/s" };
/// Times in a second that a lock goes from one owner to the next.
pub(crate) const HANDOFFS_PER_S: Metric = Metric { name: "handoffs_per_s", unit: "1/s" };
