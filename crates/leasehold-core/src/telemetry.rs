//! The metrics that a client reports through the `metrics` facade; their names are stable.
//!
//! Every metric has the label `engine`. The metrics of [`BY_MODE`] have the label `mode` too: `exclusive` (locks,
//! each lock of a multi-lock, leaders, and clients that write), `shared` (clients that read) or `permit` (of a
//! semaphore). The client creates its handles when it is built, so install the recorder before.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};

use crate::backend::Mode;

/// Locks acquired.
pub const ACQUIRED: &str = "leasehold_acquired_total";
/// Acquisitions that found the lock taken and had to wait, or failed.
pub const CONTENDED: &str = "leasehold_contended_total";
/// Acquisitions that timed out.
pub const TIMED_OUT: &str = "leasehold_timed_out_total";
/// Locks handed from a holder that released to a waiter. Label `scope`: `local` for a lease that
/// another task of this process took over, `remote` for a lease that the engine granted.
pub const HANDOFFS: &str = "leasehold_handoffs_total";
/// Renewals that succeeded.
pub const RENEWED: &str = "leasehold_renewed_total";
/// Renewals that failed without an answer and are retried.
pub const RENEWAL_FAILED: &str = "leasehold_renewal_failed_total";
/// Leases lost while they were held.
pub const LOST: &str = "leasehold_lost_total";
/// Leases released by their holder.
pub const RELEASED: &str = "leasehold_released_total";
/// Locks held now.
pub const HELD: &str = "leasehold_held";
/// Slots of semaphores that the permits of this client hold now.
pub const SLOTS: &str = "leasehold_slots";
/// Elections that this client leads now: the term has not ended, and no loss was reported.
pub const LEADING: &str = "leasehold_leading";
/// Leases that are cached now: no task holds them, and the engine sees them as held.
pub const CACHED: &str = "leasehold_cached";
/// Acquisitions of this process that found their lock taken and wait now.
pub const WAITING: &str = "leasehold_waiting";
/// Locks that a majority of independent nodes granted; only quorums report it. Label `rounds`: `1`
/// if the first answers fixed the token, `2` if a second round had to commit it.
pub const QUORUM_GRANTS: &str = "leasehold_quorum_grants_total";
/// Parties that this client has counted down on latches.
pub const LATCH_COUNTED: &str = "leasehold_latch_counted_total";
/// Waits for latches that are not complete yet.
pub const LATCH_WAITING: &str = "leasehold_latch_waiting";
/// Seconds that waits for latches took which ended with a complete latch.
pub const LATCH_WAIT: &str = "leasehold_latch_wait_seconds";
/// Seconds from the request for a lock to its grant.
pub const WAIT: &str = "leasehold_wait_seconds";
/// Seconds from the grant of a lock to its release or loss.
pub const HOLD: &str = "leasehold_hold_seconds";

/// The metrics of every client with kind, unit and description: `(name, kind, unit, description)`.
pub const METRICS: &[(&str, &str, Unit, &str)] = &[
    (ACQUIRED, "counter", Unit::Count, "Locks acquired"),
    (CONTENDED, "counter", Unit::Count, "Acquisitions that found the lock taken"),
    (TIMED_OUT, "counter", Unit::Count, "Acquisitions that timed out"),
    (HANDOFFS, "counter", Unit::Count, "Locks handed from a holder that released to a waiter"),
    (RENEWED, "counter", Unit::Count, "Renewals that succeeded"),
    (RENEWAL_FAILED, "counter", Unit::Count, "Renewals that failed and are retried"),
    (LOST, "counter", Unit::Count, "Leases lost while they were held"),
    (RELEASED, "counter", Unit::Count, "Leases released by their holder"),
    (HELD, "gauge", Unit::Count, "Locks held now"),
    (SLOTS, "gauge", Unit::Count, "Slots of semaphores held now"),
    (LEADING, "gauge", Unit::Count, "Elections that this client leads now"),
    (CACHED, "gauge", Unit::Count, "Leases cached for the next task now"),
    (WAITING, "gauge", Unit::Count, "Acquisitions that wait now"),
    (WAIT, "histogram", Unit::Seconds, "From the request for a lock to its grant"),
    (HOLD, "histogram", Unit::Seconds, "From the grant of a lock to its release or loss"),
    (LATCH_COUNTED, "counter", Unit::Count, "Parties counted down on latches"),
    (LATCH_WAITING, "gauge", Unit::Count, "Waits for latches now"),
    (LATCH_WAIT, "histogram", Unit::Seconds, "Waits until a latch was complete"),
];

/// The metrics with the label `mode`.
pub const BY_MODE: &[&str] =
    &[ACQUIRED, CONTENDED, TIMED_OUT, LOST, RELEASED, HELD, WAITING, WAIT, HOLD];

/// Returns the value of the label `mode`.
pub(crate) fn label(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Permit => "permit",
    }
}

pub(crate) struct Meters {
    pub(crate) local: Counter,
    pub(crate) remote: Counter,
    pub(crate) renewed: Counter,
    pub(crate) renewal_failed: Counter,
    slots: Gauge,
    pub(crate) leading: Gauge,
    pub(crate) cached: Gauge,
    pub(crate) latch_counted: Counter,
    pub(crate) latch_waiting: Gauge,
    latch_wait: Histogram,
    exclusive: ModeMeters,
    shared: ModeMeters,
    permit: ModeMeters,
}

/// The metrics of leases of one mode.
pub(crate) struct ModeMeters {
    pub(crate) acquired: Counter,
    pub(crate) contended: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) lost: Counter,
    pub(crate) released: Counter,
    pub(crate) held: Gauge,
    pub(crate) waiting: Gauge,
    wait: Histogram,
    hold: Histogram,
}

impl Meters {
    pub(crate) fn new(engine: &'static str) -> Self {
        for &(name, kind, unit, text) in METRICS {
            match kind {
                "counter" => metrics::describe_counter!(name, unit, text),
                "gauge" => metrics::describe_gauge!(name, unit, text),
                _ => metrics::describe_histogram!(name, unit, text),
            }
        }
        Self {
            local: metrics::counter!(HANDOFFS, "engine" => engine, "scope" => "local"),
            remote: metrics::counter!(HANDOFFS, "engine" => engine, "scope" => "remote"),
            renewed: metrics::counter!(RENEWED, "engine" => engine),
            renewal_failed: metrics::counter!(RENEWAL_FAILED, "engine" => engine),
            slots: metrics::gauge!(SLOTS, "engine" => engine),
            leading: metrics::gauge!(LEADING, "engine" => engine),
            cached: metrics::gauge!(CACHED, "engine" => engine),
            latch_counted: metrics::counter!(LATCH_COUNTED, "engine" => engine),
            latch_waiting: metrics::gauge!(LATCH_WAITING, "engine" => engine),
            latch_wait: metrics::histogram!(LATCH_WAIT, "engine" => engine),
            exclusive: ModeMeters::new(engine, Mode::Exclusive),
            shared: ModeMeters::new(engine, Mode::Shared),
            permit: ModeMeters::new(engine, Mode::Permit),
        }
    }

    /// Returns the metrics of leases of this mode.
    pub(crate) fn of(&self, mode: Mode) -> &ModeMeters {
        match mode {
            Mode::Exclusive => &self.exclusive,
            Mode::Shared => &self.shared,
            Mode::Permit => &self.permit,
        }
    }

    /// Counts a lease that the client holds from now on, and the slots of a permit.
    pub(crate) fn begins(&self, mode: Mode, slots: u32) {
        self.of(mode).held.increment(1.0);
        if slots > 0 {
            self.slots.increment(slots);
        }
    }

    /// Counts a lease out that the client does not hold any more.
    pub(crate) fn ends(&self, mode: Mode, slots: u32) {
        self.of(mode).held.decrement(1.0);
        if slots > 0 {
            self.slots.decrement(slots);
        }
    }

    pub(crate) fn latch_waited(&self, time: Duration) {
        self.latch_wait.record(time.as_secs_f64());
    }
}

impl ModeMeters {
    fn new(engine: &'static str, mode: Mode) -> Self {
        let mode = label(mode);
        Self {
            acquired: metrics::counter!(ACQUIRED, "engine" => engine, "mode" => mode),
            contended: metrics::counter!(CONTENDED, "engine" => engine, "mode" => mode),
            timed_out: metrics::counter!(TIMED_OUT, "engine" => engine, "mode" => mode),
            lost: metrics::counter!(LOST, "engine" => engine, "mode" => mode),
            released: metrics::counter!(RELEASED, "engine" => engine, "mode" => mode),
            held: metrics::gauge!(HELD, "engine" => engine, "mode" => mode),
            waiting: metrics::gauge!(WAITING, "engine" => engine, "mode" => mode),
            wait: metrics::histogram!(WAIT, "engine" => engine, "mode" => mode),
            hold: metrics::histogram!(HOLD, "engine" => engine, "mode" => mode),
        }
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.wait.record(time.as_secs_f64());
    }

    pub(crate) fn held_for(&self, time: Duration) {
        self.hold.record(time.as_secs_f64());
    }
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meters")
    }
}
