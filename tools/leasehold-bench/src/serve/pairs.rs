//! Pairs of acquire and release: by the library, by leases, and by open connections.

use std::time::{Duration, Instant};

use leasehold::Client;

use super::Figures;
use super::http::Connection;
use super::process::Serving;
use crate::Result;
use crate::measure::percentile;
use crate::metric::{ACQUIRE_MS_P50, ACQUIRE_MS_P99, PAIRS_PER_S};
use crate::runtime::Flavour;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// By the library in this process.
    Library,
    /// `acquire`, and `DELETE` of the lease.
    Lease,
    /// `hold`, and `DELETE` of the lease on another connection.
    Hold,
    /// No lock: a small file of the server, twice. What HTTP alone costs here.
    File,
}

/// One client, which does pairs.
enum Pairs {
    Library(Client, String),
    Lease(Connection, String),
    Hold(Connection, Connection, String),
    File(Connection),
}

impl Way {
    pub(super) const ALL: [Self; 4] = [Self::Library, Self::Lease, Self::Hold, Self::File];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Library => "leasehold",
            Self::Lease => "serve-lease",
            Self::Hold => "serve-hold",
            Self::File => "serve-file",
        }
    }
}

impl Pairs {
    /// Does a pair, and returns how long it took to acquire, or to get the file.
    async fn pair(&mut self) -> Result<Duration> {
        let start = Instant::now();
        match self {
            Self::Library(client, name) => {
                let guard = client.lock(&*name).acquire().await?;
                let took = start.elapsed();
                guard.release().await?;
                Ok(took)
            }
            Self::Lease(connection, path) => {
                let granted = connection.json(&format!("POST {path}/acquire")).await?;
                let took = start.elapsed();
                let lease = granted["lease"].as_str().unwrap_or_default();
                connection.whole(&format!("DELETE {path}/leases/{lease}")).await?;
                Ok(took)
            }
            Self::Hold(held, other, path) => {
                held.stream(&format!("POST {path}/hold")).await?;
                let granted = held.until("held").await?;
                let took = start.elapsed();
                let lease = granted["lease"].as_str().unwrap_or_default();
                other.whole(&format!("DELETE {path}/leases/{lease}")).await?;
                held.end().await?;
                Ok(took)
            }
            Self::File(connection) => {
                connection.whole("GET /assets/icon.svg").await?;
                let took = start.elapsed();
                connection.whole("GET /assets/icon.svg").await?;
                Ok(took)
            }
        }
    }
}

/// Measures pairs for so long.
pub(super) fn measure(way: Way, store: &str, tasks: usize, window: Duration) -> Result<Figures> {
    let serving = match way {
        Way::Library => None,
        Way::Lease | Way::Hold | Way::File => Some(Serving::start(store)?),
    };
    let (store, server) = (store.to_owned(), serving.as_ref().map(|s| s.server.clone()));
    Flavour::Multi.run(async move {
        let client = leasehold::connect(&store).await?;
        let mut all = Vec::new();
        for task in 0..tasks {
            let (name, path) = (format!("bench/{task}"), format!("bench%2F{task}"));
            let path = format!("/v1/stores/main/locks/{path}");
            let pairs = match (&server, way) {
                (Some(server), Way::Hold) => {
                    Pairs::Hold(server.connect().await?, server.connect().await?, path)
                }
                (Some(server), Way::File) => Pairs::File(server.connect().await?),
                (Some(server), _) => Pairs::Lease(server.connect().await?, path),
                (None, _) => Pairs::Library(client.clone(), name),
            };
            all.push(pairs);
        }
        let start = Instant::now();
        let (from, until) = (start + window / 5, start + window / 5 + window);
        let each = all.into_iter().map(|mut pairs| {
            tokio::spawn(async move {
                let mut took = Vec::new();
                while Instant::now() < until {
                    let is_counted = Instant::now() >= from;
                    let acquired = pairs.pair().await?;
                    if is_counted {
                        took.push(u64::try_from(acquired.as_nanos())?);
                    }
                }
                Result::Ok(took)
            })
        });
        let mut took = Vec::new();
        for task in each.collect::<Vec<_>>() {
            took.extend(task.await??);
        }
        took.sort_unstable();
        let ms = |part| percentile(&took, part).unwrap_or_default() as f64 / 1e6;
        let per_s = took.len() as f64 / window.as_secs_f64();
        Ok(vec![(PAIRS_PER_S, per_s), (ACQUIRE_MS_P50, ms(0.5)), (ACQUIRE_MS_P99, ms(0.99))])
    })
}
