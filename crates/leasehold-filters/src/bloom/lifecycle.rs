//! Builds, publishes and removes generations of a filter.

use std::time::Duration;

use leasehold_cache_redis::ServerRun;
use redis::{cmd, pipe};

use super::generation::{
    BUILDING, DOUBLED, Generation, Header, MOST_SHARDS, READY, SHARD_BITS, STAMP_BITS,
};
use super::shape::Shape;
use super::store::{STEP, Store};
use crate::{Error, ErrorKind, Result};

/// How long an unfinished generation is kept after the last addition.
const UNFINISHED: Duration = Duration::from_secs(3600);

impl Store {
    /// Creates the shards of a new generation. No process uses them yet, and they expire unless
    /// they are published or swapped in.
    pub(super) async fn make(
        &self,
        shape: Shape,
        items: u64,
        error_rate: f64,
    ) -> Result<Generation> {
        self.fits(shape, items, error_rate).await?;
        let made = Generation::new(shape);
        for shard in 0..shape.shards {
            if let Err(error) = self.make_shard(&made, shard, BUILDING, UNFINISHED).await {
                self.remove(&made).await?;
                return Err(error);
            }
        }
        Ok(made)
    }

    /// Creates a shard unless it exists; existing bits do not change. It expires after its ttl
    /// unless it is published.
    pub(super) async fn make_shard(
        &self,
        made: &Generation,
        shard: u64,
        state: i64,
        ttl: Duration,
    ) -> Result<()> {
        let key = self.key(made, shard);
        let stamp = made.stamp(shard, state).to_be_bytes();
        let mut first = cmd("SET");
        first.arg(&key).arg(&stamp).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        self.link.ask::<()>(&first).await?;
        let last = made.shape.bits + STAMP_BITS - 1;
        let steps = (1..).map(|step| step * STEP * 8).take_while(|bit| *bit < last);
        for bit in steps.chain([last]) {
            let mut longer = cmd("BITFIELD");
            longer.arg(&key).arg("INCRBY").arg("u1").arg(bit).arg(0);
            self.link.ask::<()>(&longer).await?;
        }
        Ok(())
    }

    /// Returns an error if the generation is too large for the server.
    pub(super) async fn fits(&self, shape: Shape, items: u64, error_rate: f64) -> Result<()> {
        self.has_room(shape).await.map_err(|told| {
            Error::invalid(format!("items is {items} at error_rate {error_rate}: {told}"))
        })
    }

    /// Compares the size with the limits of the server, as far as the user may read them.
    async fn has_room(&self, shape: Shape) -> Result<(), String> {
        let Shape { bits, shards, .. } = shape;
        if shards > MOST_SHARDS {
            let most = MOST_SHARDS * (SHARD_BITS / 8);
            let need = u128::from(shards) * u128::from(bits) / 8;
            return Err(format!("needs {need} bytes; at most {most} are allowed"));
        }
        let (string, all) = ((bits + STAMP_BITS).div_ceil(8), shards * bits.div_ceil(8));
        let limit: Result<Vec<String>> =
            self.link.ask(cmd("CONFIG").arg("GET").arg("proto-max-bulk-len")).await;
        let limit = limit.ok().and_then(|pair| pair.get(1)?.parse::<u64>().ok());
        if let Some(limit) = limit.filter(|limit| string > *limit) {
            return Err(format!(
                "needs a string of {string} bytes; the server allows {limit} (proto-max-bulk-len)"
            ));
        }
        let info: Result<String> = self.link.ask(cmd("INFO").arg("memory")).await;
        for line in info.unwrap_or_default().lines() {
            let limit = ["maxmemory:", "total_system_memory:"]
                .iter()
                .find_map(|field| line.strip_prefix(field)?.parse::<u64>().ok());
            if let Some(limit) = limit.filter(|limit| *limit > 0 && all > *limit) {
                return Err(format!("needs {all} bytes; the server has {limit}"));
            }
        }
        Ok(())
    }

    /// Makes the first generation the current one, unless another process was first; returns the
    /// current generation.
    pub(super) async fn publish(&self, made: &Generation, run: ServerRun) -> Result<Header> {
        // A process that still uses another generation must see that it is gone before this one is
        // used.
        self.remove_orphans().await?;
        if !self.step("P", None, made, READY, READY, run).await? {
            self.remove(made).await?;
        }
        let header = self.header().await?;
        header.ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                "another process deleted the filter while it was created; try again",
            )
        })
    }

    /// Returns false if another process is already rebuilding.
    pub(super) async fn begin(
        &self,
        seen: Option<&Header>,
        next: &Generation,
        run: ServerRun,
    ) -> Result<bool> {
        let current = seen.and_then(|header| header.current.as_ref());
        let begun = self.step("B", current, next, DOUBLED, BUILDING, run).await?;
        if begun && current.is_none() {
            // A process that still uses an earlier generation cannot learn from its stamp to add to
            // both.
            self.remove_orphans().await?;
        }
        Ok(begun)
    }

    /// Removes generations that no header names: the header was evicted or deleted alone.
    async fn remove_orphans(&self) -> Result<()> {
        let shards = format!("{}:{}:*", self.stem, "[0-9a-f]".repeat(16));
        let mut from = 0_u64;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(from).arg("MATCH").arg(&shards).arg("COUNT").arg(1_000);
            let (next, keys): (u64, Vec<Vec<u8>>) = self.link.ask(&scan).await?;
            if !keys.is_empty() {
                let mut call = self.orphans.prepare_invoke();
                call.key(&self.stem);
                keys.into_iter().for_each(|key| {
                    call.key(key);
                });
                self.link.run::<()>(&call).await?;
            }
            if next == 0 {
                return Ok(());
            }
            from = next;
        }
    }

    /// Removes the next generation from the header if its data is lost.
    pub(super) async fn forget_next(&self, seen: &Header) -> Result<bool> {
        let Some(next) = &seen.next else { return Ok(false) };
        self.step("G", seen.current.as_ref(), next, READY, BUILDING, ServerRun::UNKNOWN).await
    }

    /// Makes the next generation the current one. Returns false if the header has changed
    /// meanwhile.
    pub(super) async fn swap(
        &self,
        seen: Option<&Header>,
        next: &Generation,
        run: ServerRun,
    ) -> Result<bool> {
        let current = seen.and_then(|header| header.current.as_ref());
        self.step("S", current, next, READY, READY, run).await
    }

    async fn step(
        &self,
        step: &str,
        current: Option<&Generation>,
        next: &Generation,
        of_current: i64,
        of_next: i64,
        run: ServerRun,
    ) -> Result<bool> {
        let mut call = self.life.prepare_invoke();
        call.key(&self.stem);
        call.arg(step).arg(current.map_or(0, |current| current.shape.shards));
        call.arg(current.map(Generation::text).unwrap_or_default()).arg(next.text());
        for (generation, state) in [(current, of_current), (Some(next), of_next)] {
            let Some(generation) = generation else { continue };
            self.keys(generation).into_iter().for_each(|key| {
                call.key(key);
            });
            generation.stamps(state).for_each(|stamp| {
                call.arg(&stamp);
            });
        }
        call.arg(run.text());
        self.link.run(&call).await.map_err(|error| self.named(error))
    }

    pub(super) async fn remove(&self, made: &Generation) -> Result<()> {
        self.link.ask(cmd("UNLINK").arg(self.keys(made))).await
    }

    /// Removes a generation; see `discard.lua`.
    pub(super) async fn discard(&self, of: &Generation) -> Result<()> {
        let mut call = self.discard.prepare_invoke();
        self.keys(of).into_iter().for_each(|key| {
            call.key(key);
        });
        self.link.run(&call).await
    }

    /// Postpones the expiry of an unfinished generation.
    pub(super) async fn touch(&self, of: &Generation) -> Result<()> {
        let mut touch = pipe();
        for key in self.keys(of) {
            touch.cmd("PEXPIRE").arg(key).arg(UNFINISHED.as_millis() as u64).ignore();
        }
        self.link.ask_all(&touch).await
    }
}
