//! The matrix of engines and promises: what the suite has seen, as JSON and as a page.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Bound, Case};

/// What an engine does about a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Kept, as seen by the suite.
    Kept,
    /// Does not apply: the engine says so in its capability, and refuses what it cannot do.
    Refused,
    /// Cannot be shown on this engine (it lives in one process).
    Moot,
    /// Broken.
    Broken,
}

/// Engines by promises.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Matrix {
    /// Case, then engine, then mark.
    pub marks: BTreeMap<String, BTreeMap<String, Mark>>,
    /// Case, then engine, then the [`Bound`] in which the promise was kept.
    #[serde(default)]
    pub bounds: BTreeMap<String, BTreeMap<String, String>>,
}

impl Matrix {
    /// Notes what was seen.
    pub fn note(&mut self, case: &str, subject: &str, mark: Mark) {
        self.marks.entry(case.to_owned()).or_default().insert(subject.to_owned(), mark);
    }

    /// Notes the bound of a promise that was kept.
    pub fn note_bound(&mut self, case: &str, subject: &str, bound: Bound) {
        let bounds = self.bounds.entry(case.to_owned()).or_default();
        bounds.insert(subject.to_owned(), bound.to_string());
    }

    /// What `path` says, with what was seen now in its place: for a run of some cases. What neither
    /// has seen stays out.
    ///
    /// # Errors
    /// What the file system says, or that the file is no matrix.
    pub fn over(self, path: &Path) -> std::io::Result<Self> {
        let mut before: Self = serde_json::from_slice(&std::fs::read(path)?)?;
        for (case, marks) in self.marks {
            before.marks.entry(case).or_default().extend(marks);
        }
        for (case, bounds) in self.bounds {
            before.bounds.entry(case).or_default().extend(bounds);
        }
        Ok(before)
    }

    /// Writes the matrix to `path` as JSON, and `guarantees.md` beside it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path, cases: &[Case], subjects: &[String]) -> std::io::Result<()> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        std::fs::write(path, json)?;
        std::fs::write(path.with_file_name("guarantees.md"), self.page(cases, subjects))
    }

    fn page(&self, cases: &[Case], subjects: &[String]) -> String {
        let mut page = String::from(INTRODUCTION);
        for group in GROUPS {
            let of_group: Vec<&String> =
                subjects.iter().filter(|subject| group_of(subject) == group).collect();
            if !of_group.is_empty() {
                page += &self.table(group, cases, &of_group);
            }
        }
        page
    }

    /// The promises that apply to at least one of these subjects.
    fn table(&self, group: &str, cases: &[Case], subjects: &[&String]) -> String {
        let names: Vec<&str> = subjects.iter().map(|subject| subject.as_str()).collect();
        let line = "---|".repeat(subjects.len());
        let mut table = format!("## {group}\n\n| promise | {} |\n|---|{line}\n", names.join(" | "));
        for case in cases {
            let cells: Vec<String> =
                subjects.iter().map(|subject| self.cell(case, subject)).collect();
            if cells.iter().any(|cell| cell != REFUSED && cell != MOOT) {
                table +=
                    &format!("| {}<br>`{}` | {} |\n", case.promise, case.name, cells.join(" | "));
            }
        }
        table + "\n"
    }

    fn cell(&self, case: &Case, subject: &str) -> String {
        let bound = self.bounds.get(case.name).and_then(|bounds| bounds.get(subject));
        match self.marks.get(case.name).and_then(|marks| marks.get(subject)) {
            Some(Mark::Kept) => match bound {
                Some(bound) if case.bounded => format!("yes, {bound}"),
                _ => "yes".to_owned(),
            },
            Some(Mark::Refused) => REFUSED.to_owned(),
            Some(Mark::Moot) => MOOT.to_owned(),
            Some(Mark::Broken) => "BROKEN".to_owned(),
            None => "not run".to_owned(),
        }
    }
}

const REFUSED: &str = "–";
const MOOT: &str = "·";

/// The tables of the page, in order.
const GROUPS: [&str; 5] = [
    "Memory and files",
    "Redis and quorums",
    "Redis, in the formats of other libraries",
    "Databases",
    "etcd and ZooKeeper",
];

/// The table in which a subject is a column.
fn group_of(subject: &str) -> &'static str {
    let engine = subject.split(['-', '+']).next().unwrap_or_default();
    let is_foreign =
        ["set-nx", "redisson", "rueidis"].iter().any(|format| subject.contains(format));
    let group = match engine {
        "redis" | "redlock" if is_foreign => 2,
        "redis" | "redlock" | "quorum" => 1,
        "sqlite" | "postgres" | "mysql" => 3,
        "etcd" | "zookeeper" => 4,
        _ => 0,
    };
    GROUPS[group]
}

const INTRODUCTION: &str = "\
# What each engine guarantees

Generated by `cargo xtask matrix` from a run of the conformance suite against the real engines; \
do not edit. Each row is a test that was run: `yes` = the promise was put to the test and kept, \
`–` = does not apply: the engine says so in its capability, and refuses what it cannot do without \
changing anything (`what_cannot_be_done_is_refused`), `·` = cannot be shown there (the memory \
engine and its nodes live in one process). A table leaves out the rows that apply to none of its columns.

Where engines differ in how long a promise takes, the cell says it, and the test fails when it takes \
longer. `at once`: a call and a push, milliseconds. `within 0.4 s`: the engine cannot push, and the \
client of a waiter looks again after an eighth of the time that it has waited, 0.4 s at the longest. \
`within 2 s for each`: the offer to a waiter that does not react, or the ttl if that is less. \
`within ttl/3`: the holder's next renewal at the latest; PostgreSQL pushes it to clients that listen. \
While renewals fail it is longer, and never beyond the ttl. \
`within the ttl`: of the process that was killed. `within the session`: of its client, 30 s unless the \
URL says another `session`.

The rows hold for stores that keep their data and for clocks that run evenly, unless a row names a \
fault. What else faults do to each set-up is in [simulated.md](evidence/simulated.md), and with real \
servers and processes in [RUNS.md](../tools/leasehold-chaos/RUNS.md). \
`forget` removes the records of free locks, with their last tokens, unless such a token is ahead of \
the store's clock. Later tokens are larger as long as that clock is not set back. Nodes of a quorum \
remember their largest token and keep a record until a minute after the time until which its last \
lease was granted; etcd and ZooKeeper number tokens themselves. An acquire that arrives late is refused for 60 s after the end of its attempt by Redis, quorums, SQL databases and \
the memory engine; after that it may take the lock for a ttl, without a holder.

Leases end by their ttl; on `file` they last as long as the holder's process, so a stopped holder keeps the \
lock there. `quorum-3` and `quorum-5` are Redlock over so many nodes in memory, `redlock-3` and `redlock-5` \
over so many servers ([quorum.md](quorum.md)). `redis+sentinel` is a master with two replicas and three \
sentinels, `redis+cluster` three masters with a replica each. `redis-tls` is a server with TLS, client \
certificates, and a user that has no more rights than [redis.md](redis.md) names. `zookeeper` is one \
server, `zookeeper-3` an ensemble of three ([zookeeper.md](zookeeper.md)); so are `etcd`, with a user of few \
rights, and `etcd-3` ([etcd.md](etcd.md)). `mysql` is MariaDB, `postgres-pgbouncer` PostgreSQL behind a \
pooler in transaction mode ([sql.md](sql.md)). A column with `also` is the engine with `also=`, \
and one with the name of a format has `wire=`, for locks of other libraries ([interop.md](interop.md)).

";
