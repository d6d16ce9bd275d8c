//! Many open connections: holds with their heartbeats, and viewers of events.

use std::time::Duration;

use super::Figures;
use super::process::Serving;
use crate::Result;
use crate::measure::Window;
use crate::metric::{BYTES_PER_LOCK, BYTES_PER_VIEWER, SERVER_MS_PER_S};
use crate::runtime::Flavour;

/// How often a lock changes while viewers look.
const CHANGES: Duration = Duration::from_millis(500);

/// Opens holds, each of a lock of its own, and measures the server while nothing else happens. The ttl is
/// 30 s: a heartbeat every 10 s for each hold.
pub(super) fn holds(store: &str, holds: usize, window: Duration) -> Result<Figures> {
    let serving = Serving::start(store)?;
    let server = serving.server.clone();
    Flavour::Multi.run(async move {
        server.has_scanned(0).await?;
        let before = server.resident_at_rest().await?;
        let mut open = Vec::new();
        for n in 0..holds {
            let mut connection = server.connect().await?;
            connection.stream(&format!("POST /v1/stores/main/locks/hold%2F{n}/hold")).await?;
            connection.until("held").await?;
            open.push(tokio::spawn(async move { connection.end().await }));
        }
        server.has_scanned(holds).await?;
        let after = server.resident_at_rest().await?;
        // All heartbeats come in this time.
        let pids = [server.pid];
        let measured = Window::open(&pids)?;
        tokio::time::sleep(window.max(Duration::from_secs(10))).await;
        let spent = measured.spent()?;
        if open.iter().any(tokio::task::JoinHandle::is_finished) {
            return Err("a hold has ended early".into());
        }
        let cpu = spent.ms_per_s(spent.server.unwrap_or_default());
        let bytes = after.saturating_sub(before) as f64 / holds as f64;
        Ok(vec![(BYTES_PER_LOCK, bytes), (SERVER_MS_PER_S, cpu)])
    })
}

/// Opens viewers, and measures the server while a lock is acquired and released every second.
pub(super) fn viewers(store: &str, viewers: usize, window: Duration) -> Result<Figures> {
    let serving = Serving::start(store)?;
    let server = serving.server.clone();
    let store = store.to_owned();
    Flavour::Multi.run(async move {
        server.has_scanned(0).await?;
        let before = server.resident_at_rest().await?;
        let mut open = Vec::new();
        for _ in 0..viewers {
            let mut connection = server.connect().await?;
            connection.stream("GET /v1/events").await?;
            connection.chunk().await?;
            open.push(tokio::spawn(async move { connection.end().await }));
        }
        let after = server.resident_at_rest().await?;
        let client = leasehold::connect(&store).await?;
        let pids = [server.pid];
        let measured = Window::open(&pids)?;
        let changing = async {
            loop {
                let guard = client.lock("bench").acquire().await?;
                tokio::time::sleep(CHANGES).await;
                guard.release().await?;
                tokio::time::sleep(CHANGES).await;
            }
        };
        let changed: Result<()> =
            tokio::time::timeout(window, changing).await.unwrap_or_else(|_| Ok(()));
        changed?;
        let spent = measured.spent()?;
        if open.iter().any(tokio::task::JoinHandle::is_finished) {
            return Err("a viewer was cut off".into());
        }
        let cpu = spent.ms_per_s(spent.server.unwrap_or_default());
        let bytes = after.saturating_sub(before) as f64 / viewers as f64;
        Ok(vec![(BYTES_PER_VIEWER, bytes), (SERVER_MS_PER_S, cpu)])
    })
}
