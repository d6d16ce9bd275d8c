//! The overview of a store with very many locks, which all viewers share.

use std::time::{Duration, Instant};

use super::Figures;
use super::process::Serving;
use crate::Result;
use crate::measure::{Window, percentile};
use crate::metric::{BYTES_PER_LOCK, GET_MS_P50, GET_MS_P99, SCAN_MS, SERVER_MS_PER_S};
use crate::runtime::Flavour;

/// The locks last longer than the measurement, so that nothing is renewed in it.
const TTL: Duration = Duration::from_secs(3600);

/// How many are acquired at a time.
const AT_ONCE: usize = 64;

/// Holds locks, and measures the server while a user goes from page to page.
pub(super) fn measure(store: &str, locks: usize, window: Duration) -> Result<Figures> {
    let serving = Serving::start(store)?;
    let server = serving.server.clone();
    let store = store.to_owned();
    Flavour::Multi.run(async move {
        server.has_scanned(0).await?;
        let before = server.resident_at_rest().await?;
        let client = leasehold::connect(&store).await?;
        let each = (0..AT_ONCE).map(|first| {
            let client = client.clone();
            tokio::spawn(async move {
                for n in (first..locks).step_by(AT_ONCE) {
                    let guard = client.lock(format!("bench/{n}")).ttl(TTL).acquire().await?;
                    // Its server ends with the measurement.
                    std::mem::forget(guard);
                }
                Result::Ok(())
            })
        });
        for task in each.collect::<Vec<_>>() {
            task.await??;
        }
        server.has_scanned(locks).await?;
        let after = server.resident_at_rest().await?;
        // With a viewer, scans are as frequent as they get.
        let mut viewer = server.connect().await?;
        viewer.stream("GET /v1/events").await?;
        let viewer = tokio::spawn(async move { viewer.end().await });
        let mut connection = server.connect().await?;
        let (mut took, mut scans, mut next) = (Vec::new(), Vec::new(), String::new());
        let pids = [server.pid];
        let measured = Window::open(&pids)?;
        let start = Instant::now();
        while start.elapsed() < window || took.len() < 20 {
            let asked = Instant::now();
            let page = connection.whole(&format!("GET /?{next}")).await?;
            took.push(u64::try_from(asked.elapsed().as_nanos())?);
            let page = String::from_utf8(page)?;
            let link =
                page.split_once("rel=\"next\" href=\"/?").and_then(|(_, at)| at.split_once('"'));
            next = link.map(|(link, _)| link.replace("&amp;", "&")).unwrap_or_default();
            let metrics = String::from_utf8(connection.whole("GET /metrics").await?)?;
            let scan = metrics.lines().find_map(|line| {
                line.strip_prefix("leasehold_serve_scan_seconds{store=\"main\"} ")
            });
            scans.push(scan.ok_or("no time of a scan")?.parse::<f64>()? * 1e3);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let spent = measured.spent()?;
        viewer.abort();
        took.sort_unstable();
        let ms = |part| percentile(&took, part).unwrap_or_default() as f64 / 1e6;
        Ok(vec![
            (BYTES_PER_LOCK, after.saturating_sub(before) as f64 / locks as f64),
            (SERVER_MS_PER_S, spent.ms_per_s(spent.server.unwrap_or_default())),
            (SCAN_MS, crate::measure::median(&scans)),
            (GET_MS_P50, ms(0.5)),
            (GET_MS_P99, ms(0.99)),
        ])
    })
}
