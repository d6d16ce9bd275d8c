//! The keys of a filter in Redis: reads and additions.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

use leasehold_cache_redis::{ConsumerKind, Link, ServerRun};
use leasehold_core::clock::Clock;
use redis::{Cmd, Script, cmd, pipe};

use super::Stats;
use super::generation::{Generation, Header, STAMP_BITS, Stamps};
use super::shape::Hashed;
use crate::{Error, ErrorKind, Result};

/// The most items in one command, so that a command does not block the server for long.
const AT_ONCE: usize = 256;
/// The most bytes that the server creates or counts in one command.
pub(super) const STEP: u64 = 8 << 20;

pub(super) struct Store {
    pub(super) link: Link,
    pub(super) stem: String,
    pub(super) life: Script,
    pub(super) discard: Script,
    pub(super) orphans: Script,
}

impl Store {
    pub(super) fn new(url: &str, stem: String, limit: Duration, clock: Clock) -> Result<Self> {
        let life = Script::new(include_str!("../lua/bloom.lua"));
        let discard = Script::new(include_str!("../lua/discard.lua"));
        let orphans = Script::new(include_str!("../lua/orphans.lua"));
        let link = Link::open(url, limit, clock, ConsumerKind::Filter, &stem)?;
        Ok(Self { link, stem, life, discard, orphans })
    }

    pub(super) fn stem(&self) -> &str {
        &self.stem
    }

    pub(super) fn key(&self, of: &Generation, shard: u64) -> String {
        format!("{}:{}:{shard}", self.stem, of.name())
    }

    pub(super) fn keys(&self, of: &Generation) -> Vec<String> {
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
            self.named(Error::new(
                ErrorKind::Foreign,
                format!("the key does not hold a filter: {what}"),
            ))
        };
        if fields.get("v").map(String::as_str) != Some("1") {
            return Err(foreign(format!(
                "its version is {:?}; this program supports version 1",
                fields.get("v")
            )));
        }
        let generation = |field: &str| match fields.get(field) {
            Some(text) => Generation::read(text)
                .map(Some)
                .ok_or_else(|| foreign(format!("{field} is {text:?}"))),
            None => Ok(None),
        };
        let run = fields.get("run").cloned().unwrap_or_default();
        Ok(Some(Header { current: generation("current")?, next: generation("next")?, run }))
    }

    /// Reads the stamps of all shards.
    pub(super) async fn stamps(&self, of: &Generation) -> Result<Stamps> {
        let mut all = pipe();
        for key in self.keys(of) {
            all.cmd("BITFIELD_RO").arg(key).arg("GET").arg("i64").arg(0);
        }
        let (stamps, run): (Vec<(i64,)>, _) =
            self.link.ask_all_in_run(&all).await.map_err(|error| self.named(error))?;
        Ok(Stamps((0..).zip(stamps.into_iter().map(|(stamp,)| stamp)).collect(), run))
    }

    /// Returns which items may be in the filter; `None` if the generation is not in use, or not in
    /// this server run.
    pub(super) async fn check(
        &self,
        of: &Generation,
        run: &str,
        items: &[Hashed],
    ) -> Result<Option<Vec<bool>>> {
        let (stamps, there) = self.look(of, items).await?;
        Ok((stamps.used(of) && stamps.1.text() == run).then_some(there))
    }

    /// Does the same as [`check`](Self::check), and also returns the stamps.
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
        let (answers, run) = self.send(&commands).await?;
        for (command, answer) in commands.iter().zip(answers) {
            stamps.push((command.shard, answer.first().copied().unwrap_or(0)));
            let mut numbers = answer.iter().skip(1);
            for at in &command.items {
                there[*at] = of.shape.reads(items[*at]).fold(true, |all, (_, width)| {
                    let ends = |number: &i64| number >> (width - 1) == 1 && number & 1 == 1;
                    numbers.next().is_some_and(ends) && all
                });
            }
        }
        Ok((Stamps(stamps, run), there))
    }

    /// Sets the bits of items, and returns the stamps.
    pub(super) async fn add(&self, of: &Generation, items: &[Hashed]) -> Result<Stamps> {
        let commands = self.commands("BITFIELD", of, items, |command, item| {
            for place in of.shape.places(item) {
                command.arg("SET").arg("u1").arg(place + STAMP_BITS).arg(1);
            }
        });
        let (answers, run) = self.send(&commands).await?;
        let first = |answer: Vec<i64>| answer.first().copied().unwrap_or(0);
        let shards = commands.iter().map(|command| command.shard);
        Ok(Stamps(shards.zip(answers.into_iter().map(first)).collect(), run))
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

    async fn send(&self, commands: &[Command]) -> Result<(Vec<Vec<i64>>, ServerRun)> {
        if let [one] = commands {
            let (answer, run) = self.link.ask_in_run(&one.command).await?;
            return Ok((vec![answer], run));
        }
        let mut all = pipe();
        for one in commands {
            all.add_command(one.command.clone());
        }
        self.link.ask_all_in_run(&all).await
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

    pub(super) fn named(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Foreign => Error::new(ErrorKind::Foreign, format!("{}: {error}", self.stem)),
            _ => error,
        }
    }
}

/// One `BITFIELD` or `BITFIELD_RO` command.
struct Command {
    shard: u64,
    /// The positions of its items in the call.
    items: Vec<usize>,
    command: Cmd,
}
