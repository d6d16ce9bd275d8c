//! What clients receive instead of what they asked for.

use leasehold::ErrorKind;

/// The kinds of answers that a fault may explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The store did not answer, or not in time, or the lease ended. Servers go away in each run.
    Away,
    /// The store refused.
    Refused,
    /// A record is not of this version, or of another program.
    Foreign,
}

impl FailureKind {
    const ALL: [Self; 3] = [Self::Away, Self::Refused, Self::Foreign];

    /// Of an error; `None` for one that nothing explains.
    pub(crate) fn of(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::Unavailable => Some(Self::Away),
            ErrorKind::Refused => Some(Self::Refused),
            ErrorKind::Foreign => Some(Self::Foreign),
            _ => None,
        }
    }

    /// The same of an acquire, whose lease may end meanwhile.
    pub(crate) fn of_attempt(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::Lost | ErrorKind::Timeout => Some(Self::Away),
            kind => Self::of(kind),
        }
    }

    /// The word in journals.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Refused => "refused",
            Self::Foreign => "foreign",
        }
    }

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|told| told.name() == name)
    }
}

/// A client was told so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The number of the client's process.
    pub(crate) client: u32,
    pub(crate) at: u64,
    pub(crate) told: FailureKind,
    pub(crate) what: String,
}
