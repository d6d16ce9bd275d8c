//! The set-ups that chaos can run on: their servers, the faults that they bear, and what they promise
//! under each of these.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use leasehold_test_servers::Needs;

use crate::TTL;
use crate::fault::Fault;

/// One set-up, by the name that `--engine` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum SetUp {
    /// One Redis server
    #[default]
    Redis,
    /// One Redis server that waits after a restart (?admission=strict)
    RedisStrict,
    /// A quorum of three Redis servers
    Redlock3,
    /// A quorum of five Redis servers
    Redlock5,
    /// A quorum of seven Redis servers
    Redlock7,
    /// A Redis master with two replicas, and three sentinels
    Sentinel,
    /// A Redis Cluster of three masters with a replica each
    Cluster,
    /// One PostgreSQL server
    Postgres,
    /// PgBouncer in transaction mode, and a PostgreSQL server behind it
    Pgbouncer,
    /// One MariaDB server
    Mariadb,
    /// A SQLite database in a file
    Sqlite,
    /// A directory of lock files
    File,
    /// Three members of etcd
    Etcd,
    /// Three ZooKeeper servers
    Zookeeper,
    /// One Redis server, over TLS
    RedisTls,
    /// One PostgreSQL server, over TLS
    PostgresTls,
    /// One MariaDB server, over TLS
    MariadbTls,
    /// One member of etcd, over TLS
    EtcdTls,
}

/// What a set-up promises under a fault. Behind a fence no update is lost in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// One holder at a time, and growing tokens.
    Exclusion,
    /// Growing tokens. Holders from before the fault may overlap with those after it.
    Tokens,
}

use Fault::{
    Authority, Certificate, ClientClock, Clock, ClockBack, ClockHours, Connections, Cut, CutPeers,
    Delay, Duplicate, Empty, Failover, Full, Kill, LoseReply, Newer, Older, Password, Pause,
    Replace, Reset, Restart, Slow, Stop, Truncate,
};
use Promise::{Exclusion, Tokens};

type Faults = &'static [(Fault, Promise)];

const REDIS: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Stop, Exclusion),
    (Restart, Exclusion),
    (Truncate, Tokens),
    (Empty, Tokens),
    (Older, Tokens),
    (LoseReply, Exclusion),
    (Duplicate, Exclusion),
    (Delay, Exclusion),
    (Cut, Exclusion),
    (Slow, Exclusion),
    (Reset, Exclusion),
    (Connections, Exclusion),
    (Full, Exclusion),
    (Newer, Exclusion),
    (Password, Exclusion),
    (Clock, Tokens),
    (ClockBack, Exclusion),
    (ClockHours, Tokens),
    (ClientClock, Exclusion),
];

/// Servers that may have forgotten a lease wait until it has ended.
const ADMISSION: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Stop, Exclusion),
    (Restart, Exclusion),
    (Truncate, Exclusion),
    (Empty, Exclusion),
    (Older, Exclusion),
    (Replace, Exclusion),
    (LoseReply, Exclusion),
    (Duplicate, Exclusion),
    (Delay, Exclusion),
    (Cut, Exclusion),
    (Slow, Exclusion),
    (Reset, Exclusion),
    (Connections, Exclusion),
    (Full, Exclusion),
    (Newer, Exclusion),
    (Password, Exclusion),
    (Clock, Tokens),
    (ClockBack, Exclusion),
    (ClientClock, Exclusion),
];

/// Replication is asynchronous, and each of those that promise tokens may make another server the master.
const REPLICATED: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Stop, Tokens),
    (Restart, Tokens),
    (Truncate, Tokens),
    (Empty, Tokens),
    (Older, Tokens),
    (Failover, Tokens),
    (LoseReply, Exclusion),
    (Duplicate, Exclusion),
    (Delay, Exclusion),
    (Cut, Exclusion),
    (CutPeers, Tokens),
    (Slow, Exclusion),
    (Reset, Exclusion),
    (Connections, Tokens),
    (Full, Tokens),
    (Password, Exclusion),
    (Clock, Tokens),
    (ClientClock, Exclusion),
];

const SQL: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Stop, Exclusion),
    (Restart, Exclusion),
    (Empty, Tokens),
    (Older, Tokens),
    (LoseReply, Exclusion),
    (Cut, Exclusion),
    (Slow, Exclusion),
    (Reset, Exclusion),
    (Connections, Exclusion),
    (Full, Exclusion),
    (Newer, Exclusion),
    (Password, Exclusion),
    (Clock, Tokens),
    (ClockBack, Exclusion),
    (ClientClock, Exclusion),
];

const SQLITE: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Empty, Tokens),
    (Older, Tokens),
    (Full, Exclusion),
    (Newer, Exclusion),
    (Clock, Tokens),
    (ClockBack, Exclusion),
];

const FILE: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Empty, Tokens),
    (Full, Exclusion),
    (Newer, Exclusion),
    (Clock, Exclusion),
    (ClockBack, Exclusion),
];

/// A member without data is a new one, as Raft has it; one with older data breaks what Raft builds on.
const ETCD: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Stop, Exclusion),
    (Restart, Exclusion),
    (Replace, Exclusion),
    (LoseReply, Exclusion),
    (Cut, Exclusion),
    (CutPeers, Exclusion),
    (Slow, Exclusion),
    (Reset, Exclusion),
    (Full, Exclusion),
    (Password, Exclusion),
    (ClientClock, Exclusion),
];

/// A server without its last writes has them from the leader before it serves.
const ZOOKEEPER: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Stop, Exclusion),
    (Restart, Exclusion),
    (Older, Exclusion),
    (Replace, Exclusion),
    (LoseReply, Exclusion),
    (Cut, Exclusion),
    (CutPeers, Exclusion),
    (Slow, Exclusion),
    (Reset, Exclusion),
    (Full, Exclusion),
    (Clock, Exclusion),
    (ClockBack, Exclusion),
    (ClientClock, Exclusion),
];

/// Of servers whose connections are encrypted: what happens to single requests is not seen by a proxy.
const TLS: Faults = &[
    (Pause, Exclusion),
    (Kill, Exclusion),
    (Stop, Exclusion),
    (Restart, Exclusion),
    (LoseReply, Exclusion),
    (Cut, Exclusion),
    (Slow, Exclusion),
    (Reset, Exclusion),
    (Certificate, Exclusion),
    (Authority, Exclusion),
];

impl SetUp {
    /// As it is written on the command line and in tables.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Its servers, in a few words.
    pub(crate) fn servers(self) -> &'static str {
        match self {
            Self::Redis => "one Redis server",
            Self::RedisStrict => "one Redis server with admission",
            Self::Redlock3 => "a quorum of 3 Redis servers",
            Self::Redlock5 => "a quorum of 5 Redis servers",
            Self::Redlock7 => "a quorum of 7 Redis servers",
            Self::Sentinel => "a Redis master, 2 replicas, 3 sentinels",
            Self::Cluster => "a Redis Cluster of 3 masters and 3 replicas",
            Self::Postgres => "one PostgreSQL server",
            Self::Pgbouncer => "PostgreSQL behind PgBouncer",
            Self::Mariadb => "one MariaDB server",
            Self::Sqlite => "one SQLite file",
            Self::File => "one directory",
            Self::Etcd => "3 members of etcd",
            Self::Zookeeper => "3 ZooKeeper servers",
            Self::RedisTls => "one Redis server, over TLS",
            Self::PostgresTls => "one PostgreSQL server, over TLS",
            Self::MariadbTls => "one MariaDB server, over TLS",
            Self::EtcdTls => "one member of etcd, over TLS",
        }
    }

    /// The programs that it needs.
    pub(crate) fn needs(self) -> Needs {
        match self {
            Self::Redis
            | Self::RedisStrict
            | Self::Redlock3
            | Self::Redlock5
            | Self::Redlock7
            | Self::Sentinel
            | Self::Cluster
            | Self::RedisTls => Needs::Redis,
            Self::Postgres | Self::PostgresTls => Needs::Postgres,
            Self::Pgbouncer => Needs::Pooler,
            Self::Mariadb | Self::MariadbTls => Needs::MySql,
            Self::Sqlite | Self::File => Needs::Nothing,
            Self::Etcd | Self::EtcdTls => Needs::Etcd,
            Self::Zookeeper => Needs::ZooKeeper,
        }
    }

    /// The faults that it bears, and what it promises under each.
    pub(crate) fn faults(self) -> Faults {
        match self {
            Self::Redis => REDIS,
            Self::RedisStrict | Self::Redlock3 | Self::Redlock5 | Self::Redlock7 => ADMISSION,
            Self::Sentinel | Self::Cluster => REPLICATED,
            Self::Postgres | Self::Pgbouncer | Self::Mariadb => SQL,
            Self::Sqlite => SQLITE,
            Self::File => FILE,
            Self::Etcd => ETCD,
            Self::Zookeeper => ZOOKEEPER,
            Self::RedisTls | Self::PostgresTls | Self::MariadbTls | Self::EtcdTls => TLS,
        }
    }

    /// The kinds of faults that it bears.
    pub(crate) fn kinds(self) -> Vec<Fault> {
        self.faults().iter().map(|(fault, _)| *fault).collect()
    }

    /// Whether it promises one holder at a time in spite of a fault.
    pub(crate) fn keeps_exclusion(self, fault: Fault) -> bool {
        self.faults().contains(&(fault, Exclusion))
    }

    /// Whether its servers have replicas that take their place.
    pub(crate) fn is_replicated(self) -> bool {
        matches!(self, Self::Sentinel | Self::Cluster)
    }

    /// Whether readers and writers enter in order of arrival.
    pub(crate) fn reads_in_order(self) -> bool {
        matches!(self, Self::Zookeeper | Self::Etcd | Self::EtcdTls)
    }

    /// Whether its store is in files, whose clock is that of all processes on the machine.
    pub(crate) fn is_in_files(self) -> bool {
        matches!(self, Self::Sqlite | Self::File)
    }

    /// The servers of a quorum; 0 where there is none.
    pub(crate) fn quorum(self) -> usize {
        match self {
            Self::Redlock3 => 3,
            Self::Redlock5 => 5,
            Self::Redlock7 => 7,
            _ => 0,
        }
    }

    /// Whether servers that may have forgotten a lease wait before they grant another one.
    pub(crate) fn has_admission(self) -> bool {
        self == Self::RedisStrict || self.quorum() > 0
    }

    /// Whether a server tells the owner of a lease at once that it was ended by force.
    pub(crate) fn pushes(self) -> bool {
        matches!(
            self,
            Self::Redis
                | Self::Sentinel
                | Self::Cluster
                | Self::RedisTls
                | Self::Postgres
                | Self::PostgresTls
        )
    }

    /// Whether its locks are rows of a database.
    pub(crate) fn is_sql(self) -> bool {
        matches!(
            self,
            Self::Postgres
                | Self::Pgbouncer
                | Self::Mariadb
                | Self::Sqlite
                | Self::PostgresTls
                | Self::MariadbTls
        )
    }

    /// The longest ttl that servers with admission grant, and the time for which one has no vote that
    /// may have forgotten. In a quorum it is longer than it takes to find that another node does not
    /// answer, so that an operator's commands meet nodes that wait beside nodes that are silent.
    pub(crate) fn max_ttl(self) -> Duration {
        if self.quorum() == 0 { TTL } else { TTL * 4 }
    }
}

impl fmt::Display for SetUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// The table of the documentation: a row for each set-up, a column for each fault.
pub(crate) fn markdown() -> String {
    let faults = Fault::value_variants();
    let names: Vec<String> = faults.iter().map(|fault| format!("`{fault}`")).collect();
    let mut table = format!("| set-up | servers | {} |\n", names.join(" | "));
    table.push_str(&format!("|---|---|{}\n", "---|".repeat(faults.len())));
    for setup in SetUp::value_variants() {
        let promise = |fault: &Fault| {
            let row = setup.faults().iter().find(|(one, _)| one == fault);
            match row {
                Some((_, Exclusion)) => "holder",
                Some((_, Tokens)) => "tokens",
                None => "–",
            }
        };
        let cells: Vec<&str> = faults.iter().map(promise).collect();
        table.push_str(&format!("| `{setup}` | {} | {} |\n", setup.servers(), cells.join(" | ")));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_up_names_a_fault_once_and_bears_those_of_clients() {
        for setup in SetUp::value_variants() {
            let mut kinds = setup.kinds();
            assert!(kinds.contains(&Pause) && kinds.contains(&Kill), "{setup}");
            let count = kinds.len();
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!(kinds.len(), count, "{setup}");
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_set_up() {
        let table = markdown();
        assert_eq!(table.lines().count(), 2 + SetUp::value_variants().len());
        assert!(table.contains("| `redis-strict` | one Redis server with admission | holder |"));
    }
}
