//! The least that a hand-off takes on etcd: a write by the one client, and the watch that tells the other one. There is no
//! lock, no lease and no line.

use std::time::Duration;

use leasehold_etcd_api::{Client, ConnectOptions, WatchOptions, WatchStream};

use crate::Result;
use crate::pairs::{Times, Worker, drive};
use crate::store::StoreAddress;

const KEY: &str = "raw-push";
/// A side whose other side has ended waits no longer than this.
const OVER: Duration = Duration::from_secs(1);

/// Writes in turn that one client's watch tells the other of, in a second.
pub(super) async fn per_s(place: &StoreAddress, times: Times) -> Result<f64> {
    let server = place.url.strip_prefix("etcd://").ok_or("an etcd: URL is needed")?;
    let mut sides = Vec::new();
    for begins in [true, false] {
        let url = format!("http://{server}");
        let client = Client::connect(&url, &ConnectOptions::new()).await?;
        let mut watch = client.watch(KEY, Some(WatchOptions::new())).await?;
        while !watch.message().await?.ok_or("the stream of watches has ended")?.created {}
        sides.push(Side { client, watch, begins, is_first: begins });
    }
    Ok(drive(sides, times, &[]).await?.per_s)
}

struct Side {
    client: Client,
    watch: WatchStream,
    begins: bool,
    is_first: bool,
}

impl Side {
    /// Waits until the other side has written.
    async fn its_turn(&mut self) -> Result<()> {
        let other: &[u8] = if self.is_first { b"1" } else { b"0" };
        while let Some(told) = self.watch.message().await? {
            let is_other = |kv: &leasehold_etcd_api::KeyValue| kv.value == other;
            if told.events.iter().any(|event| event.kv.as_ref().is_some_and(is_other)) {
                return Ok(());
            }
        }
        Err("the stream of watches has ended".into())
    }
}

impl Worker for Side {
    async fn pair(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.begins)
            && let Ok(turn) = tokio::time::timeout(OVER, self.its_turn()).await
        {
            turn?;
        }
        let own = if self.is_first { "0" } else { "1" };
        self.client.put(KEY, own, None).await?;
        Ok(())
    }
}
