//! One engine on one runtime: all sizes in turn, as far as the time allows.

use std::time::Duration;

use leasehold::{Client, Guard};

use super::Limits;
use super::handoffs::Takers;
use super::operation::{Figures, Operation, Subject, lease};
use super::waiting;
use crate::many_locks::{acquire, release};
use crate::runtime::Flavour;
use crate::store::{Store, StoreAddress};
use crate::table::separated;
use crate::{Result, told};

/// How long the end of a case may take.
const ENDING: Duration = Duration::from_secs(30);

/// What is measured in one go.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) store: Store,
    pub(super) runtime: Flavour,
    pub(super) locks: Vec<usize>,
    pub(super) waiters: Vec<usize>,
    pub(super) limits: Limits,
}

/// What there is more and more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Locks,
    Waiters,
}

/// An operation at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) of: Of,
    pub(super) operation: Operation,
    pub(super) size: usize,
}

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) figures: Vec<(Point, Figures)>,
    /// What was not, with the reason.
    pub(super) notes: Vec<String>,
}

impl Of {
    pub(super) const ALL: [Self; 2] = [Self::Locks, Self::Waiters];

    /// As tables and JSON have it.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Waiters => "waiters",
        }
    }
}

impl Case {
    pub(super) fn told(&self) -> String {
        format!("{} {}", self.store, self.runtime.name())
    }

    /// Measures all sizes, on a store for the locks and another one for the waiters.
    pub(super) fn sample(&self) -> Result<Sample> {
        let (place, case) = (self.store.place()?, self.clone());
        let sample = self.runtime.run(async move {
            let mut sample = Sample::default();
            case.with_locks(&place, &mut sample).await.map(|()| sample)
        })?;
        let (place, case) = (self.store.place()?, self.clone());
        self.runtime.run(async move {
            let mut sample = sample;
            case.with_waiters(&place, &mut sample).await;
            Ok(sample)
        })
    }

    /// More and more locks of one client.
    async fn with_locks(&self, place: &StoreAddress, sample: &mut Sample) -> Result<()> {
        let (client, other) = (place.connect().await?, place.connect().await?);
        let held = client.lock(format!("{}/held", place.prefix)).lease(lease(&client));
        let held = held.acquire().await?;
        let (mut guards, mut before) = (Vec::new(), 0);
        for &locks in &self.locks {
            let stage = async {
                let more = acquire(&client, place, before..locks, lease(&client)).await?;
                guards.extend(more);
                before = locks;
                let prefix = ten_names(place, locks);
                let free = format!("{}/free", place.prefix);
                let subject = Subject { client: &client, free, held: &held, prefix };
                self.at_locks(place, &subject, &other, &mut |operation, figures| {
                    sample.add(Of::Locks, operation, locks, figures);
                })
                .await
            };
            let ended = tokio::time::timeout(self.limits.stage, stage).await;
            if !self.goes_on(ended, Of::Locks, locks, sample) {
                break;
            }
        }
        guards.push(vec![held]);
        end(guards, [client, other]).await;
        Ok(())
    }

    async fn at_locks(
        &self,
        place: &StoreAddress,
        subject: &Subject<'_>,
        other: &Client,
        report: &mut impl FnMut(Operation, Figures),
    ) -> Result<()> {
        let (times, servers) = (self.limits.times, place.server_pids());
        for operation in [Operation::Pair, Operation::Renewal, Operation::Status, Operation::List] {
            if let Some(figures) = subject.measure(operation, times, servers).await? {
                report(operation, figures);
            }
        }
        let mut takers = Takers::default();
        for client in [subject.client, other] {
            takers.add(client.lock(format!("{}/handed-on", place.prefix)));
        }
        report(Operation::HandOff, takers.measure(times, servers).await?);
        takers.stop().await;
        Ok(())
    }

    /// More and more clients, and tasks of one client, that wait for one lock.
    async fn with_waiters(&self, place: &StoreAddress, sample: &mut Sample) {
        let times = self.limits.times;
        for &waiters in &self.waiters {
            let mut add = |operation, figures| sample.add(Of::Waiters, operation, waiters, figures);
            let stage = async {
                add(Operation::LocalHandOff, waiting::tasks(place, waiters, times).await?);
                waiting::clients(place, waiters, times, &mut add).await
            };
            let ended = tokio::time::timeout(self.limits.stage, stage).await;
            if !self.goes_on(ended, Of::Waiters, waiters, sample) {
                break;
            }
        }
    }

    /// Returns whether a larger size is measured too, or notes why not.
    fn goes_on(
        &self,
        ended: std::result::Result<Result<()>, tokio::time::error::Elapsed>,
        of: Of,
        size: usize,
        sample: &mut Sample,
    ) -> bool {
        let what = match ended {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => format!("failed: {}", told(error.as_ref())),
            Err(_) => format!("not reached in {} s", self.limits.stage.as_secs()),
        };
        let size = separated(&size.to_string());
        sample.notes.push(format!("{}, {size} {}: {what}", self.told(), of.key()));
        false
    }
}

impl Sample {
    fn add(&mut self, of: Of, operation: Operation, size: usize, figures: Figures) {
        self.figures.push((Point { of, operation, size }, figures));
    }
}

/// The prefix of ten names in the middle of those that are held.
fn ten_names(place: &StoreAddress, locks: usize) -> String {
    let mut prefix = place.name(locks / 2);
    prefix.pop();
    prefix
}

/// Gives back what is held, as far as that is possible in a short time: a server of our own ends anyway.
async fn end(guards: Vec<Vec<Guard>>, clients: [Client; 2]) {
    let ending = async {
        release(guards).await.ok();
        for client in clients {
            client.close().await;
        }
    };
    tokio::time::timeout(ENDING, ending).await.ok();
}
