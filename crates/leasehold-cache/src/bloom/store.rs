//! A filter's keys in Redis, and the commands on them.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::clock::Clock;
use redis::{Cmd, Script, cmd, pipe};
use xxhash_rust::xxh64::xxh64;

use super::Stats;
use super::shape::{Hashed, Shape};
use crate::link::Link;
use crate::{Error, ErrorKind, Result};

/// Before the bits of each shard.
const STAMP_BITS: u64 = 64;
/// A string of Redis is 512 MB at most, and `BITFIELD` counts to 2^32.
pub(super) const SHARD_BITS: u64 = (1 << 32) - STAMP_BITS;
const MOST_SHARDS: u64 = 64;
/// Items in one command at most, so that it does not keep the server from others for long.
const AT_ONCE: usize = 256;
/// How many bytes the server makes or counts in one command.
const STEP: u64 = 8 << 20;
/// How long what is being built outlives the last addition to it.
const UNFINISHED: Duration = Duration::from_secs(3600);

/// The states that a stamp tells in its last two bits.
pub(super) const BUILDING: i64 = 1;
pub(super) const READY: i64 = 2;
/// Used, and to be added to beside the next.
pub(super) const DOUBLED: i64 = 3;
const STATE: i64 = 3;

/// One filling of a filter: a rebuilt filter is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    epoch: u64,
    pub(super) shape: Shape,
}

/// Which generations there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// `None`: it was lost, and is being built anew.
    pub(super) current: Option<Generation>,
    pub(super) next: Option<Generation>,
}

/// The stamps that commands have seen, by shard.
#[derive(Debug)]
pub(super) struct Stamps(Vec<(u64, i64)>);

pub(super) struct Store {
    link: Link,
    stem: String,
    life: Script,
    discard: Script,
    orphans: Script,
}

impl Generation {
    /// Of a name that was not there before.
    fn new(shape: Shape) -> Self {
        Self { epoch: fastrand::u64(..), shape }
    }

    pub(super) fn of_epoch(epoch: u64, shape: Shape) -> Self {
        Self { epoch, shape }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn text(&self) -> String {
        let Shape { bits, shards, hashes } = self.shape;
        format!("{:016x} {bits} {shards} {hashes}", self.epoch)
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let epoch = u64::from_str_radix(words.next()?, 16).ok()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let (bits, shards) = (number()?, number()?);
        let hashes = u32::try_from(number()?).ok()?;
        let sound = (1..=SHARD_BITS).contains(&bits)
            && (1..=MOST_SHARDS).contains(&shards)
            && (1..=64).contains(&hashes);
        let generation = Self { epoch, shape: Shape { bits, shards, hashes } };
        (sound && generation.text() == text).then_some(generation)
    }

    /// What stands at the beginning of a shard: of this generation alone.
    fn stamp(&self, shard: u64, state: i64) -> i64 {
        let text = format!("leasehold-bloom 1 {} {shard}", self.text());
        xxh64(text.as_bytes(), 0) as i64 & !STATE | state
    }

    fn stamps(&self, state: i64) -> impl Iterator<Item = [u8; 8]> + use<'_> {
        (0..self.shape.shards).map(move |shard| self.stamp(shard, state).to_be_bytes())
    }
}

impl Stamps {
    /// Whether the generation is also to be added to beside the next; `None` when not all that
    /// was asked is there.
    pub(super) fn all(&self, of: &Generation) -> Option<bool> {
        let own = |(shard, stamp): &(u64, i64)| stamp & !STATE == of.stamp(*shard, 0);
        let doubled = || self.0.iter().any(|(_, stamp)| stamp & STATE == DOUBLED);
        self.0.iter().all(own).then(doubled)
    }

    /// Whether one is neither of this generation nor none at all.
    pub(super) fn foreign(&self, of: &Generation) -> bool {
        let other =
            |(shard, stamp): &(u64, i64)| *stamp != 0 && stamp & !STATE != of.stamp(*shard, 0);
        self.0.iter().any(other)
    }

    /// Whether all are used for questions.
    pub(super) fn used(&self, of: &Generation) -> bool {
        self.all(of).is_some() && self.0.iter().all(|(_, stamp)| stamp & STATE != BUILDING)
    }
}

impl Store {
    pub(super) fn new(url: &str, stem: String, limit: Duration, clock: Clock) -> Result<Self> {
        let life = Script::new(include_str!("../lua/bloom.lua"));
        let discard = Script::new(include_str!("../lua/discard.lua"));
        let orphans = Script::new(include_str!("../lua/orphans.lua"));
        Ok(Self { link: Link::new(url, limit, clock)?, stem, life, discard, orphans })
    }

    pub(super) fn stem(&self) -> &str {
        &self.stem
    }

    fn key(&self, of: &Generation, shard: u64) -> String {
        format!("{}:{:016x}:{shard}", self.stem, of.epoch)
    }

    fn keys(&self, of: &Generation) -> Vec<String> {
        (0..of.shape.shards).map(|shard| self.key(of, shard)).collect()
    }

    pub(super) async fn header(&self) -> Result<Option<Header>> {
        let fields: HashMap<String, String> = self
            .link
            .ask(cmd("HGETALL").arg(&self.stem))
            .await
            .map_err(|error| self.named(error))?;
        if fields.is_empty() {
            return Ok(None);
        }
        let foreign = |what: String| {
            self.named(Error::new(ErrorKind::Foreign, format!("the key holds no filter: {what}")))
        };
        if fields.get("v").map(String::as_str) != Some("1") {
            return Err(foreign(format!("its version is {:?}, known is 1", fields.get("v"))));
        }
        let generation = |field: &str| match fields.get(field) {
            Some(text) => Generation::read(text)
                .map(Some)
                .ok_or_else(|| foreign(format!("{field} is {text:?}"))),
            None => Ok(None),
        };
        Ok(Some(Header { current: generation("current")?, next: generation("next")? }))
    }

    /// Makes the shards of a new generation, which nobody uses yet and which pass away unless they
    /// are published or swapped in.
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

    /// Makes a shard unless it is there; its bits stay as they are. It passes away with its ttl,
    /// whatever happens next.
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

    /// Refuses what is too large for the server.
    pub(super) async fn fits(&self, shape: Shape, items: u64, error_rate: f64) -> Result<()> {
        self.has_room(shape).await.map_err(|told| {
            Error::invalid(format!("items is {items} at error_rate {error_rate}: {told}"))
        })
    }

    /// What the server says of itself, where that is allowed.
    async fn has_room(&self, shape: Shape) -> Result<(), String> {
        let Shape { bits, shards, .. } = shape;
        if shards > MOST_SHARDS {
            let most = MOST_SHARDS * (SHARD_BITS / 8);
            let need = u128::from(shards) * u128::from(bits) / 8;
            return Err(format!("needs {need} bytes; allowed are {most}"));
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

    /// Makes the first generation the one that is used, unless somebody was faster; the one that is.
    pub(super) async fn publish(&self, made: &Generation) -> Result<Header> {
        // Who still uses another shall see that it is gone before anybody relies on this one.
        self.remove_orphans().await?;
        if !self.step("P", None, made, READY, READY).await? {
            self.remove(made).await?;
        }
        let header = self.header().await?;
        header.ok_or_else(|| Error::new(ErrorKind::Unavailable, "the filter is gone again"))
    }

    /// False when somebody else is at it.
    pub(super) async fn begin(&self, seen: Option<&Header>, next: &Generation) -> Result<bool> {
        let current = seen.and_then(|header| header.current.as_ref());
        let begun = self.step("B", current, next, DOUBLED, BUILDING).await?;
        if begun && current.is_none() {
            // Whoever still uses one of before cannot be told by its stamp to add to both.
            self.remove_orphans().await?;
        }
        Ok(begun)
    }

    /// Removes generations that no header names: the header was evicted, or deleted, and they were not.
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

    /// Forgets the next generation if it is gone.
    pub(super) async fn give_up(&self, seen: &Header) -> Result<bool> {
        let Some(next) = &seen.next else { return Ok(false) };
        self.step("G", seen.current.as_ref(), next, READY, BUILDING).await
    }

    /// False when it is not so any more.
    pub(super) async fn swap(&self, seen: Option<&Header>, next: &Generation) -> Result<bool> {
        let current = seen.and_then(|header| header.current.as_ref());
        self.step("S", current, next, READY, READY).await
    }

    async fn step(
        &self,
        step: &str,
        current: Option<&Generation>,
        next: &Generation,
        of_current: i64,
        of_next: i64,
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
        self.link.run(&call).await.map_err(|error| self.named(error))
    }

    pub(super) async fn remove(&self, made: &Generation) -> Result<()> {
        self.link.ask(cmd("UNLINK").arg(self.keys(made))).await
    }

    /// See `discard.lua`.
    pub(super) async fn discard(&self, of: &Generation) -> Result<()> {
        let mut call = self.discard.prepare_invoke();
        self.keys(of).into_iter().for_each(|key| {
            call.key(key);
        });
        self.link.run(&call).await
    }

    /// What is being built does not pass away for another while.
    pub(super) async fn touch(&self, of: &Generation) -> Result<()> {
        let mut touch = pipe();
        for key in self.keys(of) {
            touch.cmd("PEXPIRE").arg(key).arg(UNFINISHED.as_millis() as u64).ignore();
        }
        self.link.ask_all(&touch).await
    }

    /// Of all shards.
    pub(super) async fn stamps(&self, of: &Generation) -> Result<Stamps> {
        let mut all = pipe();
        for key in self.keys(of) {
            all.cmd("BITFIELD_RO").arg(key).arg("GET").arg("i64").arg(0);
        }
        let stamps: Vec<(i64,)> =
            self.link.ask_all(&all).await.map_err(|error| self.named(error))?;
        Ok(Stamps((0..).zip(stamps.into_iter().map(|(stamp,)| stamp)).collect()))
    }

    /// Which items may be there; `None` when the generation is not what is used.
    pub(super) async fn check(
        &self,
        of: &Generation,
        items: &[Hashed],
    ) -> Result<Option<Vec<bool>>> {
        let (stamps, there) = self.look(of, items).await?;
        Ok(stamps.used(of).then_some(there))
    }

    /// As [`check`](Self::check), with the stamps.
    pub(super) async fn look(
        &self,
        of: &Generation,
        items: &[Hashed],
    ) -> Result<(Stamps, Vec<bool>)> {
        let commands = self.commands("BITFIELD_RO", of, items, |command, item| {
            for (place, width) in of.shape.reads(item) {
                command.arg("GET").arg(format!("u{width}")).arg(place + STAMP_BITS);
            }
        });
        let mut there = vec![false; items.len()];
        let mut stamps = Vec::new();
        for (command, answer) in commands.iter().zip(self.send(&commands).await?) {
            stamps.push((command.shard, answer.first().copied().unwrap_or(0)));
            let mut numbers = answer.iter().skip(1);
            for at in &command.items {
                there[*at] = of.shape.reads(items[*at]).fold(true, |all, (_, width)| {
                    let ends = |number: &i64| number >> (width - 1) == 1 && number & 1 == 1;
                    numbers.next().is_some_and(ends) && all
                });
            }
        }
        Ok((Stamps(stamps), there))
    }

    /// Sets the bits of items.
    pub(super) async fn add(&self, of: &Generation, items: &[Hashed]) -> Result<Stamps> {
        let commands = self.commands("BITFIELD", of, items, |command, item| {
            for place in of.shape.places(item) {
                command.arg("SET").arg("u1").arg(place + STAMP_BITS).arg(1);
            }
        });
        let answers = self.send(&commands).await?;
        let first = |answer: Vec<i64>| answer.first().copied().unwrap_or(0);
        let shards = commands.iter().map(|command| command.shard);
        Ok(Stamps(shards.zip(answers.into_iter().map(first)).collect()))
    }

    fn commands(
        &self,
        name: &str,
        of: &Generation,
        items: &[Hashed],
        each: impl Fn(&mut Cmd, Hashed),
    ) -> Vec<Command> {
        let mut by_shard: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            by_shard.entry(of.shape.shard(*item)).or_default().push(at);
        }
        let mut commands = Vec::new();
        for (shard, all) in by_shard {
            for some in all.chunks(AT_ONCE) {
                let mut command = cmd(name);
                command.arg(self.key(of, shard)).arg("GET").arg("i64").arg(0);
                some.iter().for_each(|at| each(&mut command, items[*at]));
                commands.push(Command { shard, items: some.to_vec(), command });
            }
        }
        commands
    }

    async fn send(&self, commands: &[Command]) -> Result<Vec<Vec<i64>>> {
        if let [one] = commands {
            return Ok(vec![self.link.ask(&one.command).await?]);
        }
        let mut all = pipe();
        for one in commands {
            all.add_command(one.command.clone());
        }
        self.link.ask_all(&all).await
    }

    pub(super) async fn stats(&self, of: &Generation) -> Result<Stats> {
        let mut set = 0;
        for key in self.keys(of) {
            let bytes = (of.shape.bits + STAMP_BITS).div_ceil(8);
            let mut from = STAMP_BITS / 8;
            while from < bytes {
                let to = from + STEP - 1;
                set += self.link.ask::<u64>(cmd("BITCOUNT").arg(&key).arg(from).arg(to)).await?;
                from += STEP;
            }
        }
        Ok(of.shape.stats(set))
    }

    fn named(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Foreign => Error::new(ErrorKind::Foreign, format!("{}: {error}", self.stem)),
            _ => error,
        }
    }
}

/// One `BITFIELD` or `BITFIELD_RO`.
struct Command {
    shard: u64,
    /// Their positions.
    items: Vec<usize>,
    command: Cmd,
}
