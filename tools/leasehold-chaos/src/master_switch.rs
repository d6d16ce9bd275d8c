//! When another server became the master.

/// Another server became the master: it was first named after `from`, and at `until` at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) from: u64,
    pub(crate) until: u64,
}
