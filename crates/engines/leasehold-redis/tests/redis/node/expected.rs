//! The expected answers and data, by the node of `leasehold-proto`.

use std::time::Duration;

use leasehold_proto::quorum::{Marker, Node, NodeReply, Op, ProcessId, Refusal};
use leasehold_proto::{AttemptId, ClientId, Now, Token};
use leasehold_test_servers::Value as Bytes;

use super::server::{Server, Which, key};
use super::steps::{LOCKS, Step, Task, Value, What};

pub(super) struct Expected {
    node: Node<usize>,
    process: ProcessId,
    restarts: u8,
    now_us: u64,
    /// The last known counter of each lock.
    last: [u64; LOCKS],
    clock_goes_back: bool,
}

fn process(number: u8) -> ProcessId {
    ProcessId::from_bytes([number; 20])
}

fn id(attempt: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(u64::from(attempt % 3)), attempt, 0)
}

impl Expected {
    pub(super) fn new(seed: u64, server: &mut Server) -> Self {
        server.become_process(process(1));
        Self {
            node: Node::new(process(1)),
            process: process(1),
            restarts: 1,
            now_us: 1_700_000_000_123_456,
            last: [0; LOCKS],
            clock_goes_back: seed % 8 == 7,
        }
    }

    /// Carries out one call on both sides; returns the first letters of the answers.
    pub(super) fn compare(
        &mut self,
        server: &mut Server,
        steps: &[Step],
    ) -> Result<String, String> {
        self.now_us += 37;
        match steps {
            [Step::Pass(ms)] => self.now_us = self.now_us.saturating_add_signed(ms * 1000),
            [Step::Restart] => {
                self.restarts += 1;
                self.process = process(self.restarts);
                self.node.restart(self.process);
                server.become_process(self.process);
            }
            [Step::Flush] => {
                self.node.forget();
                server.clear();
            }
            [Step::FlushScripts] => server.become_process(self.process),
            [Step::Task(task, stale)] => {
                let said = self.task(server, *task, *stale)?;
                self.compare_stored(server)?;
                return Ok(said);
            }
            steps => {
                let said = self.steps(server, steps)?;
                self.compare_stored(server)?;
                return Ok(said);
            }
        }
        Ok(String::new())
    }

    /// Returns the process that a request is meant for.
    fn meant(&self, stale: bool) -> ProcessId {
        if stale { process(self.restarts - 1) } else { self.process }
    }

    fn steps(&mut self, server: &mut Server, steps: &[Step]) -> Result<String, String> {
        let (mut keys, mut arguments, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let (mut meant, mut grants, mut wanted) = (self.process, false, Vec::new());
        for step in steps {
            let Step::Do { lock, attempt, what, stale, .. } = *step else { continue };
            let now = at(self.now_us);
            let holds =
                self.node.lease(now, &lock).is_some_and(|lease| lease.attempt == id(attempt));
            // After the clock went back, a tombstone depends on when it was removed.
            if self.clock_goes_back && matches!(what, What::Release) && !holds {
                continue;
            }
            meant = self.meant(stale);
            let op = self.op(lock, id(attempt), what);
            grants |= matches!(op, Op::Acquire { .. });
            wanted.push(match op {
                Op::Acquire { proposal, .. } => format!("G{:016}", proposal.get()),
                Op::Release { .. } => "L".to_owned(),
                _ => "R".to_owned(),
            });
            let reply = self.node.handle(now, meant, &lock, op);
            if let NodeReply::Granted(counter) | NodeReply::Busy { counter, .. } = reply {
                self.last[lock] = counter.get();
            }
            keys.push(key(lock));
            arguments.push(argument(op, what));
            expected.push(reply);
        }
        if keys.is_empty() {
            return Ok(String::new());
        }
        let which = if grants { Which::Steps } else { Which::Keeping };
        // Use the short form at every other call, if it is allowed.
        let arguments = joined(&arguments, self.now_us.is_multiple_of(2));
        let answer = server.call(self.now_us, meant, which, &keys, &arguments);
        let expected = match &answer {
            Bytes::Error(error) if error.starts_with("NOSCRIPT") => {
                let stranger = NodeReply::Refused(Refusal::Stranger);
                return same("answers", &expected, &vec![stranger; keys.len()])
                    .map(|()| "!".to_owned());
            }
            _ if expected
                .iter()
                .all(|reply| *reply == NodeReply::Refused(Refusal::NotAdmitted)) =>
            {
                vec!["W".to_owned()]
            }
            _ => expected.into_iter().map(|reply| self.words(reply)).collect(),
        };
        if let Bytes::Error(error) = &answer {
            return Err(error.clone());
        }
        let answers: Vec<String> = answer.text().split('\n').map(str::to_owned).collect();
        if answers == ["F"] {
            same("answers", &expected, &wanted)?;
            return Ok("F".to_owned());
        }
        same("answers", &expected, &answers)?;
        Ok(answers.iter().filter_map(|answer| answer.chars().next()).collect())
    }

    /// Returns the first letters of the answers when one attempt asks for all locks in one call.
    pub(super) fn acquire_all(&mut self, server: &mut Server) -> Vec<String> {
        let what = What::Acquire(5_000, Value::Clock(0), false);
        let keys: Vec<String> = (0..LOCKS).map(key).collect();
        let said = (0..LOCKS).map(|lock| argument(self.op(lock, id(1), what), what));
        let arguments = joined(&said.collect::<Vec<_>>(), true);
        let answer = server.call(self.now_us, self.process, Which::Steps, &keys, &arguments);
        answer.text().split('\n').map(|answer| answer[..1].to_owned()).collect()
    }

    fn op(&self, lock: usize, attempt: AttemptId, what: What) -> Op {
        let token = |value| self.token(lock, value);
        let ms = |ms: u32| Duration::from_millis(ms.into());
        match what {
            What::Acquire(ttl, proposal, _) => {
                Op::Acquire { attempt, ttl: ms(ttl), proposal: token(proposal) }
            }
            What::Commit(from, to) => Op::Commit { attempt, from: token(from), token: token(to) },
            What::Renew(ttl, value, heal) => {
                Op::Renew { attempt, ttl: ms(ttl), token: token(value), heal }
            }
            What::Release => Op::Release { attempt },
        }
    }

    fn token(&self, lock: usize, value: Value) -> Token {
        let (from, by) = match value {
            Value::Last(by) => (self.last[lock], by),
            Value::Clock(by) => (self.now_us, by),
        };
        let value = from.saturating_add_signed(by).clamp(1, Token::MAX.get());
        Token::new(value).unwrap()
    }

    fn words(&self, reply: NodeReply) -> String {
        match reply {
            NodeReply::Granted(counter) => format!("G{:016}", counter.get()),
            NodeReply::Busy { counter, remaining } => {
                let until = self.now_us + remaining.as_micros() as u64;
                format!("B{:016}{until:016}{:016}", counter.get(), self.now_us)
            }
            NodeReply::Ended => "E".to_owned(),
            NodeReply::Committed => "C".to_owned(),
            NodeReply::Moved => "M".to_owned(),
            NodeReply::Renewed => "R".to_owned(),
            NodeReply::Healed => "H".to_owned(),
            NodeReply::Missing => "N".to_owned(),
            NodeReply::Released => "L".to_owned(),
            NodeReply::NotHeld => "D".to_owned(),
            NodeReply::Refused(Refusal::TtlTooLong { max_ttl }) => {
                format!("T{:08}", max_ttl.as_millis())
            }
            NodeReply::Refused(Refusal::ClockAhead) => "P".to_owned(),
            NodeReply::Refused(Refusal::UsedUp) => "U".to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn task(&mut self, server: &mut Server, task: Task, stale: bool) -> Result<String, String> {
        let meant = self.meant(stale);
        let (argument, expected) = match task {
            Task::Look => return Ok(String::new()),
            Task::Propose(nonce, ms) => {
                let max_ttl = Duration::from_millis(ms.into());
                let marker = self.node.propose(meant, nonce, max_ttl).map(Some);
                (format!("P{nonce:016x}{ms:08}"), marker)
            }
            Task::High => {
                let marker = self.node.look().current();
                ("H".to_owned(), self.node.high(meant).map(|_| marker))
            }
            Task::Admit(nonce, value) => self.admit(meant, nonce, self.token(0, value).get()),
            Task::UseUp(nonce) => self.admit(meant, nonce, Token::MAX.get()),
        };
        let answer = server.call(self.now_us, meant, Which::Task, &[], &[argument]);
        match (expected, answer) {
            (Err(Refusal::Stranger), Bytes::Error(error)) if error.starts_with("NOSCRIPT") => {
                Ok("!".to_owned())
            }
            (Err(Refusal::NotAdmitted), answer) if answer.text() == "W" => Ok("W".to_owned()),
            (Ok(None), answer) if answer == Bytes::Bytes(Vec::new()) => Ok(String::new()),
            (Ok(Some(marker)), answer) => {
                same("marker", &written(marker), &answer.text().chars().take(67).collect())?;
                Ok(String::new())
            }
            (expected, answer) => Err(format!("expected {expected:?}, got {answer:?}")),
        }
    }

    fn admit(
        &mut self,
        meant: ProcessId,
        nonce: u64,
        floor: u64,
    ) -> (String, Result<Option<Marker>, Refusal>) {
        (format!("A{nonce:016x}{floor:016}"), self.node.admit(meant, nonce, floor))
    }

    fn compare_stored(&self, server: &mut Server) -> Result<(), String> {
        let node = server.node();
        let head = node.as_ref().map(|node| node.chars().take(67).collect::<String>());
        same("marker", &self.node.look().marker.map(written), &head)?;
        if let Ok((high, _)) = self.node.high(self.process) {
            let stored = node.unwrap_or_default().chars().skip(67).take(16).collect();
            same("high", &format!("{high:016}"), &stored)?;
        }
        for lock in 0..LOCKS {
            let lease = self.node.lease(at(self.now_us), &lock).map(|lease| {
                let until = self.now_us + lease.remaining.as_micros() as u64;
                (lease.attempt.to_string(), lease.counter.get(), until)
            });
            let record = server.record(lock);
            let held = record.as_ref().and_then(|(record, lives_ms)| {
                let field = |from: usize, to: usize| record.get(from..to).unwrap_or_default();
                let number = |from, to| field(from, to).parse::<u64>().unwrap_or_default();
                assert!(record.starts_with("Q1") && *lives_ms > 0, "{record:?} {lives_ms}");
                let until = number(53, 69);
                (until > self.now_us).then(|| (field(85, 117).to_owned(), number(117, 133), until))
            });
            same(&format!("lease of {lock}"), &lease, &held)?;
            if let Some((record, lives_ms)) = record.filter(|_| lease.is_some()) {
                let tail = lease.map(|lease| tail(&lease.0)).unwrap_or_default();
                same(
                    "tail",
                    &format!("{:04}{tail}", tail.len()).as_str(),
                    &&record[149..149 + 4 + tail.len()],
                )?;
                let written_ms: u64 = record[4..20].parse().unwrap_or_default();
                let lives = (written_ms + 6_300_000_000).saturating_sub(self.now_us) / 1000;
                if !self.clock_goes_back && lives_ms + 600_000 < lives as i64 {
                    return Err(format!("the key of {lock} lives {lives_ms} ms, not {lives}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns the tail of an attempt: some tails are equal.
fn tail(attempt: &str) -> String {
    format!("x{}", attempt.bytes().map(usize::from).sum::<usize>() % 2)
}

/// Encodes a request for the script: the common part, and the rest of this request.
fn argument(op: Op, what: What) -> (String, String) {
    let says = |attempt: AttemptId, ttl: Duration, flag: bool| {
        let tail = tail(&attempt.to_string());
        format!("{:08}{}{:04}{tail}", ttl.as_millis(), u8::from(flag), tail.len())
    };
    match (op, what) {
        (Op::Acquire { attempt, ttl, proposal }, What::Acquire(_, _, wait)) => {
            (format!("A{attempt}{:016}", proposal.get()), says(attempt, ttl, wait))
        }
        (Op::Commit { attempt, from, token }, _) => {
            (format!("C{attempt}{:016}", token.get()), format!("{:016}", from.get()))
        }
        (Op::Renew { attempt, ttl, token, heal }, _) => {
            (format!("R{attempt}{:016}", token.get()), says(attempt, ttl, heal))
        }
        (op, _) => {
            let Op::Release { attempt } = op else { unreachable!("of its own kind") };
            (format!("E{attempt}{:016}", 0), String::new())
        }
    }
}

/// Builds the arguments of a call; in the short form, common parts occur once.
fn joined(arguments: &[(String, String)], short: bool) -> Vec<String> {
    let heads = arguments.iter().map(|(head, _)| head.as_str()).collect();
    let mut says: Vec<String> = arguments.iter().map(|(_, says)| says.clone()).collect();
    if short {
        let mut different = says.clone();
        different.retain(|says| !says.is_empty());
        different.dedup();
        says = if different.len() <= 1 { different } else { says };
    }
    [vec![heads], says].concat()
}

fn written(marker: Marker) -> String {
    let state = if marker.admitted { 'A' } else { 'W' };
    let Marker { process, nonce, max_ttl, .. } = marker;
    format!("N2{state}{process}{nonce:016x}{:08}", max_ttl.as_millis())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, node: &T, scripts: &T) -> Result<(), String> {
    match node == scripts {
        true => Ok(()),
        false => Err(format!("{what}: the node has {node:?}, the scripts {scripts:?}")),
    }
}

fn at(now_us: u64) -> Now {
    Now { steady_ns: now_us * 1000, wall_ns: now_us * 1000 }
}
