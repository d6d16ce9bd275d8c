//! A server whose node scripts use a clock that the test sets.

use leasehold_proto::quorum::ProcessId;
use leasehold_test_servers::{Admin, RedisServer, Value};

use crate::scripts::code::{NodeScripts, Script};
use crate::{plain, secs};

pub(super) const NODE: &str = "leasehold:node";
/// Replaces the server's own time.
const CLOCK: &str = "(function() local c = redis.call('GET', 'clock') \
                     return {string.sub(c, 1, -7), string.sub(c, -6)} end)()";

pub(super) struct Server {
    admin: Admin,
    /// The scripts of one process: its id, and their names on the server.
    process: ProcessId,
    _server: RedisServer,
}

/// Identifies a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Steps,
    Keeping,
    Task,
}

/// Returns the text of a script of a process, with the test's clock.
fn text(process: ProcessId, which: Which) -> String {
    let scripts = NodeScripts::new(process, secs(7200));
    let script: &Script = match which {
        Which::Steps => &scripts.steps,
        Which::Keeping => &scripts.keeping,
        Which::Task => &scripts.task,
    };
    let times = usize::from(which != Which::Task);
    assert_eq!(script.code().matches("redis.call('TIME')").count(), times);
    script.code().replace("redis.call('TIME')", CLOCK)
}

pub(super) fn key(lock: usize) -> String {
    format!("leasehold:{{lock {lock}}}")
}

impl Server {
    pub(super) fn start() -> Self {
        let server = plain();
        let admin = server.connect().unwrap();
        Self { admin, process: ProcessId::from_bytes([0; 20]), _server: server }
    }

    pub(super) fn clear(&mut self) {
        self.admin.call(&["FLUSHALL"]).unwrap();
    }

    /// Acts as a process with this id: only its scripts are known.
    pub(super) fn become_process(&mut self, process: ProcessId) {
        self.admin.call(&["SCRIPT", "FLUSH"]).unwrap();
        for which in [Which::Steps, Which::Keeping, Which::Task] {
            self.admin.call(&["SCRIPT", "LOAD", &text(process, which)]).unwrap();
        }
        self.process = process;
    }

    /// Calls a script of a process at a time in us.
    pub(super) fn call(
        &mut self,
        now_us: u64,
        process: ProcessId,
        which: Which,
        keys: &[String],
        arguments: &[String],
    ) -> Value {
        let hash = redis::Script::new(&text(process, which)).get_hash().to_owned();
        let mut command = vec!["EVALSHA".to_owned(), hash, (keys.len() + 1).to_string()];
        command.push(NODE.to_owned());
        command.extend(keys.iter().chain(arguments).cloned());
        self.admin.send(&["SET", "clock", &now_us.to_string()]).unwrap();
        self.admin.send(&command).unwrap();
        self.admin.receive().unwrap();
        self.admin.receive().unwrap()
    }

    /// Puts a list, another string and a record of a newer version under the keys of locks 1 to 3.
    pub(super) fn make_foreign(&mut self) {
        self.admin.call(&["RPUSH", &key(1), "strange"]).unwrap();
        self.admin.call(&["SET", &key(2), "strange"]).unwrap();
        self.admin.call(&["SET", &key(3), "Q2"]).unwrap();
    }

    /// Returns what is stored there.
    pub(super) fn foreign(&mut self) -> String {
        let length = self.admin.call(&["LLEN", &key(1)]).unwrap().integer().unwrap();
        let [second, third] = [2, 3].map(|lock| self.get(&key(lock)).unwrap_or_default());
        format!("{length} {second} {third}")
    }

    /// Returns the node's own record.
    pub(super) fn node(&mut self) -> Option<String> {
        self.get(NODE)
    }

    /// Returns a lock's record, and how long its key lives in ms.
    pub(super) fn record(&mut self, lock: usize) -> Option<(String, i64)> {
        let record = self.get(&key(lock))?;
        let lives = self.admin.call(&["PTTL", &key(lock)]).unwrap();
        Some((record, lives.integer().unwrap()))
    }

    fn get(&mut self, key: &str) -> Option<String> {
        match self.admin.call(&["GET", key]).unwrap() {
            Value::Null => None,
            other => Some(other.text()),
        }
    }
}
