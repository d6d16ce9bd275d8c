//! The operations whose cost is measured, and one of them again and again.

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, Guard};

use crate::Result;
use crate::measure::{Window, median};
use crate::pairs::Times;

/// The longest lease that is asked for: no renewal falls into a measurement.
pub(super) const LEASE: Duration = Duration::from_secs(3600);
/// So often at least, however long it takes.
pub(super) const LEAST: usize = 5;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// Acquire and release a free lock.
    Pair,
    /// A lock goes from one client to another.
    HandOff,
    /// A lock goes from one task of a client to another.
    LocalHandOff,
    /// Renew a lease.
    Renewal,
    /// The status of one held lock.
    Status,
    /// List ten locks by their prefix.
    List,
}

/// What one operation costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// The median of its time, in microseconds.
    pub(super) us_p50: f64,
    /// CPU time of the client's process for one.
    pub(super) client_us: f64,
    /// CPU time of the server's process for one, if the server is ours.
    pub(super) server_us: Option<f64>,
}

/// What the operations of one client need.
pub(super) struct Subject<'a> {
    pub(super) client: &'a Client,
    /// A lock that is free.
    pub(super) free: String,
    /// A lock that is held with a fixed lease.
    pub(super) held: &'a Guard,
    /// A prefix with ten names.
    pub(super) prefix: String,
}

impl Operation {
    pub(super) const ALL: [Self; 6] =
        [Self::Pair, Self::HandOff, Self::LocalHandOff, Self::Renewal, Self::Status, Self::List];

    /// As tables and JSON have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::HandOff => "hand-off",
            Self::LocalHandOff => "local hand-off",
            Self::Renewal => "renewal",
            Self::Status => "status",
            Self::List => "list",
        }
    }
}

impl Figures {
    /// Of these times, in nanoseconds, and what was spent for all of them.
    pub(super) fn of(times: &[u64], window: &Window<'_>) -> Result<Self> {
        let spent = window.spent()?;
        let us: Vec<f64> = times.iter().map(|ns| *ns as f64 / 1e3).collect();
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / times.len().max(1) as f64;
        let (client_us, server_us) = (each(spent.cpu), spent.server.map(each));
        Ok(Self { us_p50: median(&us), client_us, server_us })
    }
}

impl Subject<'_> {
    /// Measures one; `None` if the engine does not have it.
    pub(super) async fn measure(
        &self,
        operation: Operation,
        times: Times,
        servers: &[u32],
    ) -> Result<Option<Figures>> {
        match self.once(operation).await {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        self.repeat(operation, times.warm_up, 1).await?;
        let window = Window::open(servers)?;
        let took = self.repeat(operation, times.window, LEAST).await?;
        Ok(Some(Figures::of(&took, &window)?))
    }

    /// Does it for so long, and at least so often; returns how long each took, in nanoseconds.
    async fn repeat(&self, operation: Operation, time: Duration, least: usize) -> Result<Vec<u64>> {
        let (start, mut took) = (Instant::now(), Vec::new());
        while start.elapsed() < time || took.len() < least {
            let begun = Instant::now();
            self.once(operation).await?;
            took.push(nanoseconds(begun.elapsed()));
        }
        Ok(took)
    }

    async fn once(&self, operation: Operation) -> leasehold::Result<()> {
        let Self { client, free, held, prefix } = self;
        match operation {
            Operation::Pair => {
                client.lock(free).ttl(lease(client)).acquire().await?.release().await
            }
            Operation::Renewal => held.extend(lease(client)).await,
            Operation::Status => client.lock(held.name()).status().await.map(drop),
            Operation::List => client.list(prefix, LISTED).await.map(drop),
            Operation::HandOff | Operation::LocalHandOff => Ok(()),
        }
    }
}

/// Names that a list may return: more than there are with the prefix.
const LISTED: usize = 100;

/// The longest lease that this client may ask for.
pub(super) fn lease(client: &Client) -> Duration {
    client.capability().longest_ttl.map_or(LEASE, |longest| longest.min(LEASE))
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A lease without a fixed end needs no renewal, and some engines cannot list.
fn is_absent(error: &leasehold::Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported)
}
