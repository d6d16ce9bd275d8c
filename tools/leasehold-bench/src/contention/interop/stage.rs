//! Servers of our own, a judge, and processes that want one lock there.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use leasehold_test_servers::{MariaDb, Postgres};

use crate::Result;
use crate::contention::Subject;
use crate::contention::door::Door;
use crate::contention::judge;
use crate::contention::leasehold::{BESIDE_OTHERS, TTL_MS};
use crate::contention::report::Report;
use crate::peers::Built;
use crate::store::{Store, StoreAddress};
use crate::talk::Talk;

pub(super) const NAME: &str = "interop/lock";
/// How long something is waited for that has to happen.
const PATIENCE: Duration = Duration::from_secs(180);

/// Whose process it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Who {
    /// The other library's, and what its program calls the lock.
    Theirs(&'static str),
    /// Ours, with the option `wire`.
    Wire,
    /// Ours, with the option `also`.
    Also,
    /// Ours, without an option.
    Native,
}

/// A process, and its number in the judge's file.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: u32,
    talk: Talk,
}

/// Where a scene takes place.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    peer: &'a Built,
    again: &'a [&'a str],
    ttl: Duration,
    pub(super) place: StoreAddress,
    door: Door,
    started: u32,
}

impl<'a> Stage<'a> {
    pub(super) fn new(peer: &'a Built, ttl: Duration, again: &'a [&'a str]) -> Result<Self> {
        let (place, door) = (place(peer)?, Door::new(judge::LENGTH, 1)?);
        Ok(Self { peer, again, ttl, place, door, started: 0 })
    }

    /// Starts a process, which connects and waits for `begin`.
    pub(super) fn start(&mut self, who: Who, tasks: u32, hold: Duration) -> Result<Process> {
        self.started += 1;
        let (subject, lock) = match who {
            Who::Theirs(lock) => (Subject::Peer(self.peer.clone()), lock),
            _ => (Subject::Leasehold, BESIDE_OTHERS),
        };
        let words = [
            "contention",
            "multi",
            &tasks.to_string(),
            lock,
            &hold.as_micros().to_string(),
            NAME,
            &self.door.path().display().to_string(),
            &self.started.to_string(),
        ]
        .map(str::to_owned);
        let mut command = subject.command("contender", &words, self.again)?;
        command.env(TTL_MS, self.ttl.as_millis().to_string());
        let mut talk = Talk::start(subject.name(), command)?;
        talk.say(&self.url(who))?;
        Ok(Process { number: self.started, talk })
    }

    fn url(&self, who: Who) -> String {
        let format = wire(self.peer);
        let options = match who {
            Who::Theirs(_) => return self.place.urls(),
            Who::Wire => format!("?wire={format}"),
            Who::Also => format!("?also={format}"),
            Who::Native => String::new(),
        };
        // There a lease ends with the session.
        let session = match self.peer.engine() {
            "zookeeper" => format!("&session={}s", self.ttl.as_secs()),
            _ => String::new(),
        };
        format!("{}{options}{session}", self.place.url)
    }

    /// The process that was inside last, or is.
    pub(super) fn entered_last(&self) -> Result<u32> {
        self.door.entered_last()
    }

    /// The same, and when it entered.
    pub(super) fn entry(&self) -> Result<(u32, SystemTime)> {
        self.door.last_entry()
    }

    /// How often two were inside at once, and how often a token fell, also as processes saw that were killed.
    pub(super) fn notes(&self) -> Result<(u64, u64)> {
        self.door.notes()
    }

    /// Waits until this process has entered, and returns how long that took.
    pub(super) fn until_entered(&self, process: &Process) -> Result<Duration> {
        let asked = Instant::now();
        while self.entered_last()? != process.number {
            if asked.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(format!("a process does not get the lock within {seconds} s").into());
            }
            sleep(Duration::from_millis(1));
        }
        Ok(asked.elapsed())
    }
}

impl Process {
    /// Waits until it is connected.
    pub(super) fn ready(&mut self) -> Result<()> {
        self.talk.expect("ready")
    }

    /// Lets it begin.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.talk.say("begin")?;
        self.talk.say("mark")
    }

    /// Lets it end, which it does at once or when it has released.
    pub(super) fn enough(&mut self) -> Result<()> {
        self.talk.say("enough")?;
        self.talk.say("end")
    }

    /// What it has seen, after `enough`.
    pub(super) fn report(mut self) -> Result<Report> {
        let report = serde_json::from_str(&self.talk.hear()?)?;
        self.talk.end()?;
        Ok(report)
    }

    /// Kills it, wherever it is.
    pub(super) fn kill(self) {
        drop(self.talk);
    }
}

/// A server of our own, or several, with the table of ShedLock if it is a database.
fn place(peer: &Built) -> Result<StoreAddress> {
    match (peer.engine(), peer.servers()) {
        ("zookeeper", _) => Store::ZooKeeper.place(),
        ("etcd", _) => Store::Etcd.place(),
        ("postgres", _) => {
            let server = Postgres::start(&["max_connections=200"])?;
            server.sql(&shedlock_table("TIMESTAMP"))?;
            server.sql("GRANT ALL ON shedlock TO leasehold")?;
            Ok(StoreAddress::other(server.url(), None, server))
        }
        ("mysql", _) => {
            let server = MariaDb::start(&["--max-connections=200"])?;
            server.sql(&shedlock_table("TIMESTAMP(3)"))?;
            Ok(StoreAddress::other(server.url(), Some(server.pid()), server))
        }
        (_, 1) => Store::Redis.place(),
        (_, several) => Store::Redlock(several).place(),
    }
}

/// The table as ShedLock's documentation has it.
fn shedlock_table(time: &str) -> String {
    format!(
        "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until {time} NOT NULL, \
         locked_at {time} NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"
    )
}

/// The value of `wire` and of `also` for a peer's locks.
fn wire(peer: &Built) -> &'static str {
    match peer.subject {
        "curator-mutex" => "curator",
        "kazoo" => "kazoo",
        "go-etcd" | "jetcd" => "concurrency",
        "rueidislock-1" => "rueidis&majority=1",
        "rueidislock-2" => "rueidis&majority=2",
        "pottery" | "pottery-3" => "set-nx&key-prefix=redlock:",
        subject if subject.starts_with("redisson") => "redisson",
        subject if subject.starts_with("spring") => "set-nx&spring=bench",
        subject if subject.starts_with("shedlock") => "shedlock",
        _ => "set-nx",
    }
}

/// How the tables show it.
pub(super) fn format(peer: &Built) -> String {
    let wire = wire(peer);
    if peer.servers() > 1 { format!("`redlock://`, `{wire}`") } else { format!("`{wire}`") }
}

/// What the tables call a lock.
pub(super) fn title(subject: &str) -> String {
    let title = match subject.strip_suffix("-3").unwrap_or(subject) {
        "redis-py" => "redis-py `Lock`",
        "pottery" => "pottery `Redlock`",
        "rueidislock-1" => "rueidislock, `KeyMajority` 1",
        "rueidislock-2" => "rueidislock, `KeyMajority` 2",
        "redisson-rlock" => "Redisson `RLock`",
        "redisson-fair" => "Redisson fair lock",
        "redisson-fenced" => "Redisson `RFencedLock`",
        "redisson-spin" => "Redisson spin lock",
        "redisson-write" => "Redisson write lock",
        "curator-mutex" => "Curator `InterProcessMutex`",
        "kazoo" => "kazoo `Lock`",
        "bsm-redislock" => "bsm/redislock",
        "go-etcd" => "Go `concurrency.Mutex`",
        "spring" => "Spring `RedisLockRegistry`",
        "spring-pub-sub" => "Spring `RedisLockRegistry`, `PUB_SUB_LOCK`",
        "shedlock" => "ShedLock, PostgreSQL",
        "shedlock-mysql" => "ShedLock, MariaDB",
        other => other,
    };
    let servers = if subject.ends_with("-3") { ", three servers" } else { "" };
    format!("{title}{servers}")
}
