//! The stories: what happens, with which numbers, on which set-ups, and what prevents it.

mod clients;
mod pauses;
mod plain;
mod servers;
mod waiting;

use super::tale::Tale;
use super::text::Text;
use crate::simulator::{Entry, Plan, SECOND, Setup, What, run};

/// Clients whose servers have to admit one another have been there for so long when a story begins.
const WARM_UP: u64 = SECOND;

/// One story.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// As it is written on a command line.
    pub name: &'static str,
    /// What happens, in a sentence.
    pub about: Text,
    /// Where it can be played; the first one is the default.
    pub setups: &'static [Setup],
    /// What a set-up is in this story, where that is not what it is elsewhere: the mistake that the story tells.
    pub(super) by_hand: &'static [(Setup, Text)],
    /// Why it goes wrong and what prevents it, where it goes wrong.
    pub(super) shown: Text,
    /// What prevented it, where it did not go wrong.
    pub(super) spared: Text,
    /// Whether it went wrong.
    pub(super) goes_wrong: fn(&Tale) -> bool,
    plan: fn(Setup) -> Plan,
}

impl Story {
    /// The story of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        let name = if name == "no-expiry" { "setnx" } else { name };
        stories().find(|story| story.name == name)
    }

    /// The default set-up.
    pub fn setup(&self) -> Setup {
        self.setups.first().copied().unwrap_or(Setup::Single)
    }

    /// Plays it.
    pub fn play(&'static self, setup: Setup, seed: u64) -> Tale {
        let plan = (self.plan)(setup);
        let warm_up = if setup.admission() { WARM_UP } else { 0 };
        let (seen, entries) = run(&later(&plan, warm_up), seed);
        let entries = entries.into_iter().map(|entry| earlier(entry, warm_up)).collect();
        Tale::new(self, plan, seen, entries)
    }
}

/// All stories, in the order of the list.
pub fn stories() -> impl Iterator<Item = &'static Story> {
    [plain::STORIES, pauses::STORIES, servers::STORIES, clients::STORIES, waiting::STORIES]
        .into_iter()
        .flatten()
}

/// The same plan, beginning later.
fn later(plan: &Plan, by: u64) -> Plan {
    let mut plan = plan.clone();
    plan.clients.iter_mut().for_each(|client| client.start += by);
    plan.faults.iter_mut().for_each(|(time, _)| *time += by);
    plan.calm += by;
    plan.end += by;
    plan
}

fn earlier(entry: Entry, by: u64) -> Entry {
    let what = match entry.what {
        What::ValidUntil(client, until) => What::ValidUntil(client, until.saturating_sub(by)),
        what => what,
    };
    Entry { time: entry.time.saturating_sub(by), what }
}

/// Five independent Redis servers.
const FIVE: [Setup; 4] =
    [Setup::RedlockPlain, Setup::RedlockTokens, Setup::Redlock, Setup::RedissonRedlock];

/// All set-ups, Leasehold on one Redis first.
const EVERYWHERE: &[Setup] = &[
    Setup::Single,
    Setup::SingleStrict,
    Setup::Replicated,
    Setup::PlainSet,
    FIVE[0],
    FIVE[1],
    FIVE[2],
    FIVE[3],
    Setup::ZooKeeper,
    Setup::Etcd,
    Setup::SqlLease,
];

fn two_holders(tale: &Tale) -> bool {
    tale.seen.overlaps > 0
}

/// A write of a client that had lost the lock destroys an update, where no fence refuses it.
fn late_write(tale: &Tale) -> bool {
    tale.seen.lost_plain > 0
}

fn in_vain(tale: &Tale) -> bool {
    !tale.in_vain().is_empty()
}

/// The lock is without a holder for most of a ttl of 30 s, or longer, while a client wants it.
fn long_gap(tale: &Tale) -> bool {
    tale.seen.gap > 20 * SECOND
}

fn never(_: &Tale) -> bool {
    false
}
