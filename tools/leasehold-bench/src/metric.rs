//! The names of what is measured, each with its unit.

/// A figure's name and unit, as the JSON has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// All hand-offs, or those inside a process, if both are reported.
    pub(crate) scope: Option<&'static str>,
}

impl Metric {
    const fn new(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit, scope: None }
    }

    const fn of(name: &'static str, unit: &'static str, scope: &'static str) -> Self {
        Self { name, unit, scope: Some(scope) }
    }

    /// The head of its column.
    pub(crate) fn head(&self) -> &'static str {
        match self.scope {
            Some("local") => "local",
            _ => self.name,
        }
    }
}

/// Acquisitions, each with its release, in a second.
pub(crate) const PAIRS_PER_S: Metric = Metric::new("pairs_per_s", "1/s");
/// CPU time of the client's process for one of them.
pub(crate) const CLIENT_US_PER_PAIR: Metric = Metric::new("client_us_per_pair", "us");
/// CPU time of the server's process for one of them, of all servers together.
pub(crate) const SERVER_US_PER_PAIR: Metric = Metric::new("server_us_per_pair", "us");
/// Context switches of the client's process for one of them, whether a thread waited or another one had its turn.
pub(crate) const SWITCHES_PER_PAIR: Metric = Metric::new("switches_per_pair", "1");
/// Share of the grants of a quorum that needed one round of requests.
pub(crate) const ONE_ROUND_SHARE: Metric = Metric::new("one_round_share", "1");
/// Time from asking to holding: half of them take no longer.
#[cfg(feature = "servers")]
pub(crate) const ACQUIRE_MS_P50: Metric = Metric::new("acquire_ms_p50", "ms");
/// 99 of 100 take no longer.
#[cfg(feature = "servers")]
pub(crate) const ACQUIRE_MS_P99: Metric = Metric::new("acquire_ms_p99", "ms");
/// None takes longer.
#[cfg(feature = "servers")]
pub(crate) const ACQUIRE_MS_MAX: Metric = Metric::new("acquire_ms_max", "ms");
/// How long a node is waited for, and one round trip.
#[cfg(feature = "servers")]
pub(crate) const BOUND_MS: Metric = Metric::new("bound_ms", "ms");
/// The longest time from asking to the error.
#[cfg(feature = "servers")]
pub(crate) const ERROR_MS: Metric = Metric::new("error_ms", "ms");
/// Growth of the process for each guard that is held.
pub(crate) const BYTES_PER_LOCK: Metric = Metric::new("bytes_per_lock", "B");
/// Growth of the process for each task that waits, the task itself included.
pub(crate) const BYTES_PER_WAITER: Metric = Metric::new("bytes_per_waiter", "B");
/// CPU time of the client's process in a second in which nothing is acquired or released.
pub(crate) const CLIENT_MS_PER_S: Metric = Metric::new("client_ms_per_s", "ms/s");
/// CPU time of the server's process in such a second.
pub(crate) const SERVER_MS_PER_S: Metric = Metric::new("server_ms_per_s", "ms/s");
/// Times in a second that a lock goes from one owner to the next.
pub(crate) const HANDOFFS_PER_S: Metric = Metric::new("handoffs_per_s", "1/s");
/// The same in `contention`: between different tasks, wherever they are.
pub(crate) const HANDOFFS_ALL: Metric = Metric::of("handoffs_per_s", "1/s", "all");
/// Those of them between tasks of one process.
pub(crate) const HANDOFFS_LOCAL: Metric = Metric::of("handoffs_per_s", "1/s", "local");
/// Times that the lock was taken, hand-offs and those who took it again themselves.
pub(crate) const ACQUIRED_PER_S: Metric = Metric::new("acquired_per_s", "1/s");
/// Commands that clients have sent for each of all hand-offs; what scripts call is not counted.
pub(crate) const COMMANDS_PER_HANDOFF: Metric = Metric::new("commands_per_handoff", "1");
/// Who hold the lock or ask the server for it, at a time.
pub(crate) const CONTENDERS: Metric = Metric::new("contenders", "1");
/// Time from asking to holding, of hand-offs: half of them take no longer.
pub(crate) const WAIT_MS_P50: Metric = Metric::new("wait_ms_p50", "ms");
/// 99 of 100 take no longer.
pub(crate) const WAIT_MS_P99: Metric = Metric::new("wait_ms_p99", "ms");
/// None takes longer.
pub(crate) const WAIT_MS_MAX: Metric = Metric::new("wait_ms_max", "ms");
/// Jain's index of fairness over how often each task has held the lock.
pub(crate) const JAIN_TASKS: Metric = Metric::new("jain_tasks", "1");
/// The same over processes.
pub(crate) const JAIN_PROCESSES: Metric = Metric::new("jain_processes", "1");
/// Times in a second that a lock is taken to read.
#[cfg(feature = "servers")]
pub(crate) const READS_PER_S: Metric = Metric::new("reads_per_s", "1/s");
/// Times in a second that it is taken to write.
#[cfg(feature = "servers")]
pub(crate) const WRITES_PER_S: Metric = Metric::new("writes_per_s", "1/s");
/// Commands that clients have sent for each time that it is taken; what scripts call is not counted.
#[cfg(feature = "servers")]
pub(crate) const COMMANDS_PER_PAIR: Metric = Metric::new("commands_per_pair", "1");
/// Time from asking to reading: 99 of 100 take no longer.
#[cfg(feature = "servers")]
pub(crate) const READ_MS_P99: Metric = Metric::new("read_ms_p99", "ms");
/// Time from asking to writing: half of them take no longer.
#[cfg(feature = "servers")]
pub(crate) const WRITE_MS_P50: Metric = Metric::new("write_ms_p50", "ms");
/// 99 of 100 take no longer.
#[cfg(feature = "servers")]
pub(crate) const WRITE_MS_P99: Metric = Metric::new("write_ms_p99", "ms");
/// None takes longer.
#[cfg(feature = "servers")]
pub(crate) const WRITE_MS_MAX: Metric = Metric::new("write_ms_max", "ms");
/// Times in a second that tasks read beside another task of their process.
#[cfg(feature = "servers")]
pub(crate) const JOINS_PER_S: Metric = Metric::new("joins_per_s", "1/s");
/// CPU time of the client's process for one of them, with its release.
#[cfg(feature = "servers")]
pub(crate) const CLIENT_US_PER_JOIN: Metric = Metric::new("client_us_per_join", "us");
/// CPU time of all client processes for one hand-off.
pub(crate) const CLIENT_US_PER_HANDOFF: Metric = Metric::new("client_us_per_handoff", "us");
/// CPU time of the server's process for one hand-off.
pub(crate) const SERVER_US_PER_HANDOFF: Metric = Metric::new("server_us_per_handoff", "us");
/// Time of the cheapest question to the server and its answer, by the plain client; half of them take no
/// longer.
#[cfg(feature = "servers")]
pub(crate) const ROUND_TRIP_US: Metric = Metric::new("round_trip_us", "us");
/// Times that two held the lock at once.
pub(crate) const OVERLAPS: Metric = Metric::new("overlaps", "1");
/// Pieces that are sold in a second.
#[cfg(feature = "servers")]
pub(crate) const SALES_PER_S: Metric = Metric::new("sales_per_s", "1/s");
/// CPU time of the client's process for one of them.
#[cfg(feature = "servers")]
pub(crate) const CLIENT_US_PER_SALE: Metric = Metric::new("client_us_per_sale", "us");
/// Requests that are answered in a second.
#[cfg(feature = "servers")]
pub(crate) const REQUESTS_PER_S: Metric = Metric::new("requests_per_s", "1/s");
/// CPU time of the client's process for one of them.
#[cfg(feature = "servers")]
pub(crate) const CLIENT_US_PER_REQUEST: Metric = Metric::new("client_us_per_request", "us");
/// CPU time of the Redis server's process for one of them.
#[cfg(feature = "servers")]
pub(crate) const SERVER_US_PER_REQUEST: Metric = Metric::new("server_us_per_request", "us");
/// Time of one command in the server, as it counts itself: without reading and answering.
#[cfg(feature = "servers")]
pub(crate) const CALL_US: Metric = Metric::new("call_us", "us");
/// Of items that were never added, the share of which a full filter says Maybe.
#[cfg(feature = "servers")]
pub(crate) const ERROR_RATE: Metric = Metric::new("error_rate", "1");
/// How far that is from what was asked for, as a share of it.
#[cfg(feature = "servers")]
pub(crate) const OFF: Metric = Metric::new("off", "1");
/// Size of a filter for each item that it was made for.
#[cfg(feature = "servers")]
pub(crate) const BITS_PER_ITEM: Metric = Metric::new("bits_per_item", "bit");
/// Calls of the loader.
#[cfg(feature = "servers")]
pub(crate) const LOADS: Metric = Metric::new("loads", "1");
/// Reads that were answered without a load.
#[cfg(feature = "servers")]
pub(crate) const HITS_PER_S: Metric = Metric::new("hits_per_s", "1/s");
/// The share of them among all reads.
#[cfg(feature = "servers")]
pub(crate) const HIT_SHARE: Metric = Metric::new("hit_share", "1");
/// Commands that the server has run for each of them; what scripts call counts too.
#[cfg(feature = "servers")]
pub(crate) const COMMANDS_PER_HIT: Metric = Metric::new("commands_per_hit", "1");
/// Calls of the loader in a second.
#[cfg(feature = "servers")]
pub(crate) const LOADS_PER_S: Metric = Metric::new("loads_per_s", "1/s");
/// Calls of the loader each time that a key has ended.
#[cfg(feature = "servers")]
pub(crate) const LOADS_PER_EXPIRY: Metric = Metric::new("loads_per_expiry", "1");
/// The most loads that were under way at a time, of all processes.
#[cfg(feature = "servers")]
pub(crate) const LOADS_AT_ONCE: Metric = Metric::new("loads_at_once", "1");
/// From the death of who loads to the next load of the same key.
#[cfg(feature = "servers")]
pub(crate) const NEXT_LOAD_MS: Metric = Metric::new("next_load_ms", "ms");
/// Requests that ended without a value, of all.
#[cfg(feature = "servers")]
pub(crate) const ERROR_SHARE: Metric = Metric::new("error_share", "1");
/// Time of a request: half of them take no longer.
#[cfg(feature = "servers")]
pub(crate) const GET_MS_P50: Metric = Metric::new("get_ms_p50", "ms");
/// 99 of 100 take no longer.
#[cfg(feature = "servers")]
pub(crate) const GET_MS_P99: Metric = Metric::new("get_ms_p99", "ms");
/// None takes longer.
#[cfg(feature = "servers")]
pub(crate) const GET_MS_MAX: Metric = Metric::new("get_ms_max", "ms");
/// How long it takes to load and write all keys.
#[cfg(feature = "servers")]
pub(crate) const FILL_S: Metric = Metric::new("fill_s", "s");
/// The time in which all of them end, but for the first and the last hundredth.
#[cfg(feature = "servers")]
pub(crate) const SPREAD_S: Metric = Metric::new("spread_s", "s");
/// The most that end in one second.
#[cfg(feature = "servers")]
pub(crate) const ENDS_PER_S_MAX: Metric = Metric::new("ends_per_s_max", "1/s");
/// Growth of the server's process for each viewer of its events.
#[cfg(feature = "servers")]
pub(crate) const BYTES_PER_VIEWER: Metric = Metric::new("bytes_per_viewer", "B");
/// How long a scan of the store takes.
#[cfg(feature = "servers")]
pub(crate) const SCAN_MS: Metric = Metric::new("scan_ms", "ms");
/// Rows that were sent to the database, for each that is in it at the end.
#[cfg(feature = "servers")]
pub(crate) const ATTEMPTS_PER_ROW: Metric = Metric::new("attempts_per_row", "1");
/// Time of one operation: half of them take no longer.
#[cfg(feature = "servers")]
pub(crate) const OPERATION_US_P50: Metric = Metric::new("operation_us_p50", "us");
/// CPU time of the client's process for one of them.
#[cfg(feature = "servers")]
pub(crate) const CLIENT_US_PER_OPERATION: Metric = Metric::new("client_us_per_operation", "us");
/// CPU time of the server's process for one of them, of all servers together.
#[cfg(feature = "servers")]
pub(crate) const SERVER_US_PER_OPERATION: Metric = Metric::new("server_us_per_operation", "us");
