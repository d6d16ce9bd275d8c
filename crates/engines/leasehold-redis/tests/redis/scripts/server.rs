//! A server whose scripts use a clock that the test sets.

use leasehold_proto::handoff::Part;
use leasehold_sim::script::CLIENTS;
use leasehold_test_servers::{Admin, RedisServer, Value};

use super::RETAIN;
use super::code::{Script, Scripts};
use super::steps::{FOREIGN, LOCKS};
use crate::plain;

/// Replaces the server's own time.
const CLOCK: &str = "(function() local c = redis.call('GET', 'clock') \
                     return {string.sub(c, 1, -7), string.sub(c, -6)} end)()";

/// Data of another program under a key, and whether it looks like a newer record.
const STRANGE: [(&[&str], bool); 6] = [
    (&["SET", "KEY", "550e8400-e29b-41d4"], false),
    (&["HSET", "KEY", "a", "1"], false),
    (&["SET", "KEY", "L3 and what comes after"], true),
    (&["SET", "KEY", "L2 but far too short"], false),
    (&["SET", "KEY", "L1H0 but far too short"], false),
    (&["RPUSH", "KEY", "a"], false),
];

/// The server and the hashes of its scripts.
pub(super) struct Server {
    admin: Admin,
    /// The pushes to the clients: one connection receives all of them.
    ears: Admin,
    listening: Vec<bool>,
    pub(super) acquire: String,
    pub(super) release: String,
    pub(super) rotate: String,
    pub(super) renew: String,
    pub(super) force: String,
    pub(super) status: String,
    /// The shared scripts by the limit of a step: the one that acquires, and the other.
    shared: [(usize, [String; 2]); 2],
    /// The same for semaphores.
    semaphore: [(usize, [String; 2]); 2],
    _server: RedisServer,
}

/// The stored data of one lock.
#[derive(Debug)]
pub(super) struct Stored {
    /// The record, if it is a string.
    pub(super) record: Option<String>,
    /// How long its key lives, in ms.
    pub(super) lives_ms: i64,
    /// The queue's members, each followed by its ticket.
    pub(super) queue: Vec<String>,
    /// The tombstones: attempts, each followed by its end.
    pub(super) tombs: Vec<String>,
}

pub(super) fn key(lock: usize) -> String {
    format!("leasehold:{{lock {lock}}}")
}

fn channel(client: usize) -> String {
    format!("leasehold:c:{client:016x}")
}

impl Server {
    pub(super) fn start() -> Self {
        let server = plain();
        let mut admin = server.connect().unwrap();
        let mut ears = server.connect().unwrap();
        ears.call(&["HELLO", "3"]).unwrap();
        let scripts = Scripts::new(RETAIN);
        let mut load = |script: &Script| {
            assert_eq!(script.code().matches("redis.call('TIME')").count(), 1);
            let code = script.code().replace("redis.call('TIME')", CLOCK);
            admin.call(&["SCRIPT", "LOAD", &code]).unwrap().text()
        };
        let (acquire, release) = (load(&scripts.acquire), load(&scripts.release));
        let rotate = load(&scripts.rotate);
        let (renew, force) = (load(&scripts.renew), load(&scripts.force_release));
        let status = load(&scripts.status);
        let mut load_two = |cap: usize, two: [&Script; 2]| {
            let load = |script: &Script| {
                assert_eq!(script.code().matches("local CAP = 256").count(), 1);
                let code = script.code().replace("redis.call('TIME')", CLOCK);
                let code = code.replace("local CAP = 256", &format!("local CAP = {cap}"));
                admin.call(&["SCRIPT", "LOAD", &code]).unwrap().text()
            };
            (cap, two.map(load))
        };
        let [locks, semaphores] = [
            [&scripts.shared_acquire, &scripts.shared],
            [&scripts.semaphore_acquire, &scripts.semaphore],
        ];
        let shared = [load_two(2, locks), load_two(256, locks)];
        let semaphore = [load_two(2, semaphores), load_two(256, semaphores)];
        let listening = vec![false; CLIENTS as usize];
        Self {
            admin,
            ears,
            listening,
            acquire,
            release,
            rotate,
            renew,
            force,
            status,
            shared,
            semaphore,
            _server: server,
        }
    }

    /// Stores nothing but the data of another program, with all clients reachable.
    pub(super) fn clear(&mut self, seed: u64) {
        self.admin.call(&["FLUSHALL"]).unwrap();
        (0..self.listening.len()).for_each(|client| self.listen(client, true));
        let (command, _) = STRANGE[seed as usize % STRANGE.len()];
        let key = key(FOREIGN);
        let command: Vec<&str> =
            command.iter().map(|part| if *part == "KEY" { &key } else { *part }).collect();
        self.admin.call(&command).unwrap();
    }

    /// Returns the answer to an acquire at the key of another program.
    pub(super) fn strange_answer(seed: u64) -> &'static str {
        if STRANGE[seed as usize % STRANGE.len()].1 { "XV" } else { "XF" }
    }

    /// Returns the bytes under the key of another program.
    pub(super) fn strange_bytes(&mut self) -> Value {
        self.admin.call(&["DUMP", &key(FOREIGN)]).unwrap()
    }

    pub(super) fn listen(&mut self, client: usize, on: bool) {
        if self.listening[client] != on {
            self.listening[client] = on;
            let command = if on { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
            self.ears.send(&[command, &channel(client)]).unwrap();
            assert!(matches!(self.ears.receive().unwrap(), Value::Push(_)));
        }
    }

    pub(super) fn forget(&mut self, lock: usize, part: Part) {
        let suffix = match part {
            Part::Lease => "",
            Part::Queue => ":q",
            Part::Tombstones => ":t",
        };
        self.admin.call(&["DEL", &format!("{}{suffix}", key(lock))]).unwrap();
    }

    /// Deletes the keys of a lock with these suffixes.
    pub(super) fn remove(&mut self, lock: usize, ends: &[&str]) {
        for end in ends {
            self.admin.call(&["DEL", &(key(lock) + end)]).unwrap();
        }
    }

    /// Removes the tombstones of a lock that have expired at this time.
    pub(super) fn drop_tombstones(&mut self, lock: usize, now_us: u64) {
        let (key, now) = (key(lock) + ":t", now_us.to_string());
        self.admin.call(&["ZREMRANGEBYSCORE", &key, "-inf", &now]).unwrap();
    }

    /// Returns the shared script with this limit of a step.
    pub(super) fn shared(&self, cap: usize, acquires: bool) -> String {
        let found = self.shared.iter().find(|(one, _)| *one == cap).unwrap();
        found.1[usize::from(!acquires)].clone()
    }

    /// Returns the same script for semaphores.
    pub(super) fn semaphore(&self, cap: usize, acquires: bool) -> String {
        let found = self.semaphore.iter().find(|(one, _)| *one == cap).unwrap();
        found.1[usize::from(!acquires)].clone()
    }

    /// Returns the string under the key of a lock.
    pub(super) fn string(&mut self, lock: usize) -> Option<String> {
        match self.admin.call(&["GET", &key(lock)]).unwrap() {
            Value::Null => None,
            other => Some(other.text()),
        }
    }

    /// Returns the members of a sorted set of a lock.
    pub(super) fn texts(&mut self, lock: usize, end: &str) -> Vec<String> {
        let members = self.admin.call(&["ZRANGE", &(key(lock) + end), "0", "-1"]).unwrap();
        members.items().iter().map(Value::text).collect()
    }

    /// Returns the same, each with its score.
    pub(super) fn scores(&mut self, lock: usize, end: &str) -> Vec<String> {
        let command = ["ZRANGE", &(key(lock) + end), "0", "-1", "WITHSCORES"];
        self.admin.call(&command).unwrap().items().iter().map(Value::text).collect()
    }

    pub(super) fn lives_ms(&mut self, lock: usize, end: &str) -> i64 {
        self.admin.call(&["PTTL", &(key(lock) + end)]).unwrap().integer().unwrap()
    }

    /// Calls a script at a time in us; returns its answer, and its pushes in order.
    pub(super) fn call(
        &mut self,
        now_us: u64,
        hash: &str,
        keys: &[String],
        arguments: &[String],
    ) -> (Value, Vec<String>) {
        let mut command = vec!["EVALSHA".to_owned(), hash.to_owned(), keys.len().to_string()];
        command.extend(keys.iter().chain(arguments).cloned());
        self.admin.send(&["SET", "clock", &now_us.to_string()]).unwrap();
        self.admin.send(&command).unwrap();
        self.admin.receive().unwrap();
        let answer = self.admin.receive().unwrap();
        (answer, self.pushed())
    }

    fn pushed(&mut self) -> Vec<String> {
        self.ears.send(&["PING"]).unwrap();
        let mut pushed = Vec::new();
        while let Value::Push(parts) = self.ears.receive().unwrap() {
            let to = parts[1].text().replace("leasehold:c:", "");
            pushed.push(format!("to {to}: {}", parts[2].text()));
        }
        pushed
    }

    /// Returns the stored data of these locks; the time is still that of the last call.
    pub(super) fn stored(&mut self, locks: &[usize]) -> Vec<Stored> {
        let keys: Vec<String> = locks.iter().map(|lock| key(*lock)).collect();
        let count = keys.len().to_string();
        let mut status = vec!["EVALSHA", &self.status, &count];
        status.extend(keys.iter().map(String::as_str));
        self.admin.send(&status).unwrap();
        for key in &keys {
            self.admin.send(&["ZRANGE", &format!("{key}:t"), "0", "-1", "WITHSCORES"]).unwrap();
            self.admin.send(&["PTTL", key]).unwrap();
        }
        let texts = |value: &Value| value.items().iter().map(Value::text).collect();
        let status = self.admin.receive().unwrap();
        assert_eq!(status.items().len(), 7 * LOCKS.min(locks.len()), "{status:?}");
        let mut stored = Vec::new();
        for answers in status.items().chunks(7) {
            let record = match &answers[0] {
                Value::Null => None,
                other => Some(other.text()),
            };
            let queue: Vec<String> = texts(&answers[2]);
            assert_eq!(answers[3].integer(), Some(queue.len() as i64 / 2));
            let tombs = texts(&self.admin.receive().unwrap());
            let lives_ms = self.admin.receive().unwrap().integer().unwrap();
            stored.push(Stored { record, lives_ms, queue, tombs });
        }
        stored
    }
}
