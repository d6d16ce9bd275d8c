//! Which commands an operator runs beside the load, with which arguments, and how each may end.

use std::fmt;

use clap::ValueEnum;

use crate::setup::SetUp;
use crate::workload::{LIMIT, Workload};
use crate::{MS, SECOND, client};

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Operation {
    /// `leasehold list`
    List,
    /// `leasehold status`
    Status,
    /// `leasehold doctor`
    Doctor,
    /// `leasehold init`
    Init,
    /// `leasehold::forget`: removes the record of a free lock
    Forget,
    /// `leasehold::forget` of locks that are not used any more, one of which is used again
    CleanUp,
    /// `leasehold run` with a command that counts; some write into a pipe that is full
    Run,
    /// `leasehold force-release`, with the holder's token, an earlier one, and one that no lease has
    ForceRelease,
    /// `leasehold quorum init`, with and without `--after-loss`, and with another `--max-ttl`
    QuorumInit,
    /// `leasehold quorum status`
    QuorumStatus,
}

impl Operation {
    /// The name on the command line and in tables.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// A drawn command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// The time since the command before.
    pub(crate) pause: u64,
    pub(crate) operation: Operation,
    /// Chooses the arguments.
    pub(crate) way: u64,
    /// The operator kills the command after this time.
    pub(crate) killed: Option<u64>,
}

impl Planned {
    /// The file by which clients are made to keep the lock, or to leave it alone, before the command.
    pub(crate) fn prepares(self) -> Option<&'static str> {
        match (self.operation, self.way % 4) {
            (Operation::ForceRelease, 0 | 1) => Some(client::KEEP),
            (Operation::Forget, 0 | 2) => Some(client::LULL),
            _ => None,
        }
    }
}

impl Planned {
    /// How long the command of `run` works, in milliseconds: some renewals, or less than one.
    pub(crate) fn work(self) -> u64 {
        if (self.way / 4).is_multiple_of(2) { 2500 } else { self.way / 8 % 50 }
    }

    /// Whether `run` writes its messages into a full pipe.
    pub(crate) fn blocks_stderr(self) -> bool {
        self.operation == Operation::Run && self.way.is_multiple_of(4)
    }
}

/// The commands of a seed, without an end; each comes as often as any other. The faults of the same seed
/// are drawn apart from them.
#[derive(Debug)]
pub(crate) struct Plan {
    rng: fastrand::Rng,
    kinds: Vec<Operation>,
    bag: Vec<Operation>,
    /// Those of a file instead, and the time of the first.
    written: Option<(u64, std::vec::IntoIter<Planned>)>,
}

impl Plan {
    pub(crate) fn new(seed: u64, kinds: &[Operation]) -> Self {
        let rng = fastrand::Rng::with_seed(!seed);
        Self { rng, kinds: kinds.to_vec(), bag: Vec::new(), written: None }
    }

    /// Commands of a file, each with the pause until the next one.
    pub(crate) fn written((first, commands): (u64, Vec<Planned>)) -> Self {
        Self { written: Some((first, commands.into_iter())), ..Self::new(0, &[]) }
    }

    /// When the first one is due.
    pub(crate) fn first(&self) -> u64 {
        self.written.as_ref().map_or(SECOND, |(first, _)| *first)
    }

    /// The next command; `None` when there are none.
    pub(crate) fn next(&mut self) -> Option<Planned> {
        if let Some((_, commands)) = &mut self.written {
            return commands.next();
        }
        if self.bag.is_empty() {
            self.bag.clone_from(&self.kinds);
            self.rng.shuffle(&mut self.bag);
        }
        let operation = self.bag.pop()?;
        let pause = self.rng.u64(100 * MS..600 * MS);
        let (way, kills) = (self.rng.u64(..), self.rng.u32(..4) == 0);
        let killed = kills.then(|| self.rng.u64(MS..300 * MS));
        Some(Planned { pause, operation, way, killed })
    }
}

/// The exit code for a store that cannot be used, or refuses.
pub(crate) const UNAVAILABLE: i32 = 69;
/// The exit code of `run` whose lock was lost.
pub(crate) const LOST: i32 = 76;
/// The exit code of `run` that did not get the lock in time.
pub(crate) const NOT_HAD: i32 = 1;
/// The exit code of a command that was called in a wrong way.
pub(crate) const WRONG_CALL: i32 = 125;
/// Nodes keep the ttl of their set-up: a command that names another one must be refused.
const OTHER_MAX_TTL: &str = "60s";
/// Microseconds, as tokens are: 11 days ahead of every token that a run can give.
const FUTURE: u64 = 1_000_000_000_000;

/// A command line, and how it may end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// The arguments. Without the store, which comes first.
    pub(crate) words: Vec<String>,
    /// The token that `force-release` names.
    pub(crate) token: Option<u64>,
    /// The allowed exit codes.
    pub(crate) exits: Vec<i32>,
}

impl Call {
    fn new(words: &[&str], exits: &[i32]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { words, token: None, exits: exits.to_vec() }
    }

    /// Whether the command must change nothing and say so.
    pub(crate) fn must_be_refused(&self) -> bool {
        !self.exits.contains(&0)
    }

    /// The same command where no fault is left: an unavailable store is no excuse.
    pub(crate) fn in_calm(mut self) -> Self {
        if !self.must_be_refused() {
            self.exits.retain(|code| *code != UNAVAILABLE);
        }
        self
    }
}

/// What the choice of arguments depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) setup: SetUp,
    pub(crate) workload: Workload,
    /// Tokens that holders had, the latest one last.
    pub(crate) tokens: &'a [u64],
    /// The commands so far.
    pub(crate) started: u64,
}

impl Situation<'_> {
    /// The command line of a drawn command; `None` where it makes no sense yet.
    pub(crate) fn call(&self, operation: Operation, way: u64) -> Option<Call> {
        Some(match operation {
            Operation::List => Call::new(&["list", "--json"], &[0, UNAVAILABLE]),
            Operation::Status => {
                Call::new(&["status", client::NAME, "--json"], &[0, 1, UNAVAILABLE])
            }
            Operation::Doctor => Call::new(&["doctor", "--json"], &[0, 1, 2, UNAVAILABLE]),
            Operation::Init if self.setup.is_sql() => Call::new(&["init"], &[0, UNAVAILABLE]),
            Operation::Init => Call::new(&["init"], &[0]),
            Operation::Forget => Call::new(&[client::NAME], &[0, UNAVAILABLE]),
            // The command comes with the start.
            Operation::Run => {
                let limit = LIMIT.to_string();
                let slot = match self.workload {
                    Workload::Counter | Workload::Cached | Workload::Readers => &[][..],
                    Workload::Permits => &["--limit", &limit],
                };
                let run = ["run", client::NAME, "--ttl", "1s", "--wait", "5s"];
                let words = [&run[..], slot, &["--"]].concat();
                Call::new(&words, &[0, NOT_HAD, UNAVAILABLE, LOST])
            }
            Operation::CleanUp => Call::new(&[&self.idle_name()], &[0, UNAVAILABLE]),
            Operation::ForceRelease => self.force_release(way)?,
            Operation::QuorumInit => self.quorum_init(way),
            Operation::QuorumStatus => match self.setup.has_admission() {
                true => Call::new(&["quorum", "status", "--json"], &[0, UNAVAILABLE]),
                false => Call::new(&["quorum", "status", "--json"], &[WRONG_CALL]),
            },
        })
    }

    /// The lock that a clean-up uses. Where records are kept for a minute, it is not used for longer than that.
    fn idle_name(&self) -> String {
        let names = if self.setup.has_admission() { 40 } else { 4 };
        client::idle_name(self.started / 10 % names)
    }

    fn force_release(&self, way: u64) -> Option<Call> {
        let latest = *self.tokens.last()?;
        if self.setup == SetUp::File {
            // Only the end of its process ends a holder's lease; 1 where no process holds the lock.
            let token = latest.to_string();
            let words = ["force-release", client::NAME, "--json", "--token", &token];
            return Some(Call::new(&words, &[1, UNAVAILABLE, WRONG_CALL]));
        }
        let (token, exits): (u64, &[i32]) = match way % 4 {
            0 | 1 => (latest, &[0, 1, UNAVAILABLE]),
            // The judge knows whether its lease had ended.
            2 => (self.tokens[(way / 4) as usize % self.tokens.len()], &[0, 1, UNAVAILABLE]),
            _ => (latest + FUTURE, &[1, UNAVAILABLE]),
        };
        let call = Call::new(
            &["force-release", client::NAME, "--json", "--token", &token.to_string()],
            exits,
        );
        Some(Call { token: Some(token), ..call })
    }

    fn quorum_init(&self, way: u64) -> Call {
        let init = ["quorum", "init", "--yes"];
        let with = |words: &[&str], exits: &[i32]| Call::new(&[&init[..], words].concat(), exits);
        match (self.setup.has_admission(), self.setup.quorum(), way % 3) {
            (false, ..) => with(&[], &[WRONG_CALL]),
            // Without `--after-loss` the operator says that no client holds a lock. A single node that has
            // lost its data cannot know better.
            (true, 0, _) => with(&["--after-loss"], &[0, UNAVAILABLE]),
            (true, _, 0) => with(&[], &[0, UNAVAILABLE]),
            (true, _, 1) => with(&["--after-loss"], &[0, UNAVAILABLE]),
            (true, ..) => with(&["--max-ttl", OTHER_MAX_TTL], &[UNAVAILABLE]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_commands_again_and_each_kind_its_turn() {
        let kinds = [Operation::List, Operation::Forget, Operation::ForceRelease];
        let draw = |seed| {
            let mut plan = Plan::new(seed, &kinds);
            (0..9).map(|_| plan.next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for round in draw(7).chunks(3) {
            let mut drawn: Vec<Operation> = round.iter().map(|one| one.operation).collect();
            drawn.sort_unstable();
            assert_eq!(drawn, kinds);
        }
        assert!(Plan::new(7, &[]).next().is_none());
    }

    #[test]
    fn what_must_be_refused_is_among_the_commands() {
        let call = |setup, operation, way| {
            Situation { setup, workload: Workload::Counter, tokens: &[5, 6, 7], started: 0 }
                .call(operation, way)
                .unwrap()
        };
        assert!(call(SetUp::Redis, Operation::QuorumInit, 0).must_be_refused());
        assert!(call(SetUp::Etcd, Operation::QuorumInit, 0).must_be_refused());
        assert!(call(SetUp::Redlock5, Operation::QuorumInit, 2).must_be_refused());
        assert!(!call(SetUp::Redlock5, Operation::QuorumInit, 1).must_be_refused());
        assert!(call(SetUp::Redis, Operation::ForceRelease, 3).must_be_refused());
        assert!(call(SetUp::File, Operation::ForceRelease, 0).must_be_refused());
        let named = call(SetUp::Redis, Operation::ForceRelease, 4 + 2);
        assert_eq!((named.token, named.must_be_refused()), (Some(6), false));
        assert_eq!(call(SetUp::Redlock5, Operation::List, 0).in_calm().exits, [0]);
        assert_eq!(call(SetUp::Redlock5, Operation::QuorumInit, 2).in_calm().exits, [UNAVAILABLE]);
        let nobody =
            Situation { setup: SetUp::Redis, workload: Workload::Counter, tokens: &[], started: 0 };
        assert_eq!(nobody.call(Operation::ForceRelease, 0), None);
    }
}
