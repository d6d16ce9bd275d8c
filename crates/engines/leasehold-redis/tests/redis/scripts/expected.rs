//! The expected answers and data, by the record of `leasehold-proto`.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_proto::handoff::{AcquireRequest, Push, Record, ReleaseRequest, Renewed, State};
use leasehold_proto::{AttemptId, Now, Token};
use leasehold_sim::script::{CLIENTS, Op, Replay, Request, Said};
use leasehold_test_servers::Value;

use super::KEPT_MS;
use super::messages;
use super::server::{Server, Stored, key};
use super::steps::{FOREIGN, LOCKS, Step};

/// The expected state of one lock.
#[derive(Debug, Default)]
struct Lock {
    record: Record,
    replay: Replay,
    /// The attempts that a request has named.
    attempts: BTreeSet<AttemptId>,
    /// The queue's key was deleted: the record may claim that a client waits.
    line_forgotten: bool,
    clock_goes_back: bool,
}

/// The whole expected state.
#[derive(Debug)]
pub(super) struct Expected {
    locks: Vec<Lock>,
    listening: Vec<bool>,
    now_us: u64,
    clock_goes_back: bool,
    strange_answer: &'static str,
    strange_bytes: Option<Value>,
}

impl Expected {
    pub(super) fn new(seed: u64) -> Self {
        let clock_goes_back = seed % 8 == 7;
        Self {
            locks: (0..LOCKS).map(|_| Lock { clock_goes_back, ..Lock::default() }).collect(),
            listening: vec![true; CLIENTS as usize],
            now_us: 1_700_000_000_123_456,
            clock_goes_back,
            strange_answer: Server::strange_answer(seed),
            strange_bytes: None,
        }
    }

    /// Carries out the steps of one call on both sides.
    pub(super) fn compare(&mut self, server: &mut Server, steps: &[Step]) -> Result<(), String> {
        // So that times do not fall on whole milliseconds.
        self.now_us += 37;
        for Step { lock, op, .. } in steps {
            match *op {
                Op::Pass(time) if self.clock_goes_back && time > Duration::from_secs(60) => {
                    self.now_us -= time.as_micros() as u64;
                }
                Op::Pass(time) => self.now_us += time.as_micros() as u64,
                Op::Listen(client, on) => {
                    let client = place(AttemptId::new(client, 0, 0));
                    self.listening[client] = on;
                    server.listen(client, on);
                }
                Op::Forget(part) if *lock != FOREIGN => {
                    self.locks[*lock].record.forget(part);
                    self.locks[*lock].line_forgotten |=
                        part == leasehold_proto::handoff::Part::Queue;
                    server.forget(*lock, part);
                }
                _ => {}
            }
        }
        let requests: Vec<(usize, Request)> = steps
            .iter()
            .filter_map(|step| Some((step.lock, self.locks[step.lock].replay.request(&step.op)?)))
            .collect();
        match requests.is_empty() {
            true => Ok(()),
            false => self.compare_requests(server, &requests),
        }
    }

    fn compare_requests(
        &mut self,
        server: &mut Server,
        requests: &[(usize, Request)],
    ) -> Result<(), String> {
        let bytes = server.strange_bytes();
        let bytes = self.strange_bytes.get_or_insert(bytes).clone();
        // Use the short form if no key occurs twice, and no releasing attempt is in the queue.
        let locks: BTreeSet<usize> = requests.iter().map(|(lock, _)| *lock).collect();
        let queued = |lock: &usize, attempt| {
            self.locks[*lock].record.waiters().any(|waiter| waiter.attempt == attempt)
        };
        let short = locks.len() == requests.len()
            && !requests.iter().any(|(lock, request)| match request {
                Request::Release(release) => queued(lock, release.attempt),
                _ => false,
            });
        let mut said = Vec::new();
        let mut pushed = Vec::new();
        for (lock, request) in requests {
            said.push(self.carry_out(*lock, request, &mut pushed));
        }
        let (answer, heard) = call(server, self.now_us, requests, short);
        let answers: Vec<String> = match (&requests[0].1, answer.text()) {
            // One answer for all.
            (_, all) if all == "R" => vec![all; requests.len()],
            (Request::Acquire(_), all) if all.starts_with('A') && !all.contains('\n') => {
                vec![all; requests.len()]
            }
            // A renewal is answered with one letter, any other request with a line.
            (Request::Renew(..), letters) => letters.chars().map(String::from).collect(),
            (_, lines) => lines.split('\n').map(String::from).collect(),
        };
        let answers: Vec<String> = answers
            .into_iter()
            .zip(requests)
            .map(|(answer, (_, request))| messages::in_full(answer, request))
            .collect();
        // A record whose queue was deleted still claims that a client waits.
        let forgotten = self.locks.iter().any(|lock| lock.line_forgotten);
        let plain = |answers: &[String]| -> Vec<String> {
            let suffix = if forgotten { "w" } else { "" };
            let plain = |answer: &String| match answer.as_str() {
                "W" if forgotten => "R".to_owned(),
                answer => answer.trim_end_matches(suffix).to_owned(),
            };
            answers.iter().map(plain).collect()
        };
        same("answers", &plain(&said), &plain(&answers))?;
        same("pushes", &pushed, &heard)?;
        let locks: Vec<usize> = locks.into_iter().collect();
        for (lock, stored) in locks.iter().zip(server.stored(&locks)) {
            if *lock == FOREIGN {
                same("what is not ours", &bytes, &server.strange_bytes())?;
                continue;
            }
            let last = requests.iter().rfind(|(other, _)| other == lock);
            let buried = last.is_some_and(|(_, request)| buries(request));
            self.locks[*lock]
                .compare(self.now_us, &stored, buried)
                .map_err(|difference| format!("lock {lock}: {difference}\nstored: {stored:#?}"))?;
        }
        Ok(())
    }

    /// Returns the record's answer to a request, in the format of the scripts.
    fn carry_out(&mut self, lock: usize, request: &Request, pushed: &mut Vec<String>) -> String {
        let Self { locks, listening, now_us, .. } = self;
        if lock == FOREIGN {
            return self.carry_out_foreign(request);
        }
        let now = at(*now_us);
        let Lock { record, replay, attempts, .. } = &mut locks[lock];
        let mut pushes: Vec<(AttemptId, Push)> = Vec::new();
        let mut reach = |attempt: AttemptId, push: Push| {
            let there = listening[place(attempt)];
            if there {
                pushes.push((attempt, push));
            }
            there
        };
        let said = match request {
            Request::Acquire(request) => Said::Acquired(record.acquire(now, request, &mut reach)),
            Request::Renew(attempt, base, ttl) => {
                Said::Renewed(record.renew(now, *attempt, *base, *ttl))
            }
            Request::Release(release) => Said::Released(record.release(now, release, &mut reach)),
            Request::Rotate(release, request) => {
                let (verdict, answer) = record.rotate(now, release, request, &mut reach);
                Said::Rotated(verdict, answer)
            }
            Request::Force(token) => Said::Forced(record.force_release(now, *token, &mut reach)),
        };
        let wanted = record.waiters().len() > 0;
        attempts.extend(attempts_of(request));
        replay.heard(request, said, &pushes);
        let words = |(attempt, push): &(AttemptId, Push)| {
            messages::push(*attempt, *push, *now_us, &key(lock))
        };
        pushed.extend(pushes.iter().map(words));
        match said {
            Said::Acquired(answer) => messages::answer(answer, *now_us, wanted),
            Said::Renewed(Renewed::Lost) => "L".to_owned(),
            Said::Renewed(Renewed::Renewed { waiters: 0, .. }) => "R".to_owned(),
            Said::Renewed(Renewed::Renewed { .. }) => "W".to_owned(),
            Said::Released(verdict) => messages::verdict(verdict),
            Said::Rotated(verdict, answer) => {
                messages::verdict(verdict) + &messages::answer(answer, *now_us, wanted)
            }
            Said::Forced(forced) => messages::forced(forced),
        }
    }

    fn carry_out_foreign(&self, request: &Request) -> String {
        let verdict =
            |release: &ReleaseRequest| if release.base.is_some() { "L" } else { "G" }.to_owned();
        let strange = self.strange_answer.to_owned();
        match request {
            Request::Acquire(_) | Request::Force(_) => strange,
            Request::Renew(..) => "L".to_owned(),
            Request::Release(release) => verdict(release),
            Request::Rotate(release, _) => verdict(release) + &strange,
        }
    }
}

fn call(
    server: &mut Server,
    now_us: u64,
    requests: &[(usize, Request)],
    short: bool,
) -> (Value, Vec<String>) {
    let keys: Vec<String> = requests.iter().map(|(lock, _)| key(*lock)).collect();
    let all: Vec<&Request> = requests.iter().map(|(_, request)| request).collect();
    let arguments = match requests[0].1 {
        // Two arguments for each.
        Request::Rotate(..) => {
            all.iter().flat_map(|request| messages::arguments(&[*request], true)).collect()
        }
        _ => messages::arguments(&all, short),
    };
    let hash = match requests[0].1 {
        Request::Acquire(_) => &server.acquire,
        Request::Renew(..) => &server.renew,
        Request::Release(_) => &server.release,
        Request::Rotate(..) => &server.rotate,
        Request::Force(_) => &server.force,
    };
    server.call(now_us, &hash.clone(), &keys, &arguments)
}

impl Lock {
    /// `buried`: a tombstone was added last, and expired tombstones must have been removed.
    fn compare(&self, now_us: u64, stored: &Stored, buried: bool) -> Result<(), String> {
        let now = at(now_us);
        let waiters: Vec<String> =
            self.record.waiters().map(|w| messages::member(w.attempt)).collect();
        let queue: Vec<String> = stored.queue.iter().step_by(2).cloned().collect();
        same("line", &waiters, &queue)?;
        let number = |text: &String| text.parse::<f64>().unwrap_or_default() as u64;
        let tickets: Vec<u64> = stored.queue.iter().skip(1).step_by(2).map(number).collect();
        if !tickets.is_sorted_by(|one, next| one < next) {
            return Err(format!("tickets do not grow: {tickets:?}"));
        }
        let refused = self.attempts.iter().filter(|attempt| self.record.is_refused(now, **attempt));
        let refused: BTreeSet<String> = refused.map(AttemptId::to_string).collect();
        let tombs = stored.tombs.chunks(2).filter(|tomb| buried || number(&tomb[1]) > now_us);
        let tombs: BTreeSet<String> = tombs.map(|tomb| tomb[0].clone()).collect();
        same("refused", &refused, &tombs)?;
        let Some(record) = &stored.record else {
            return same("owner", &None, &self.record.owner().map(|(owner, ())| owner));
        };
        let fields = messages::Fields::read(record)?;
        if (!queue.is_empty() && !fields.waits)
            || (queue.is_empty() && fields.waits && !self.line_forgotten)
        {
            return Err(format!("waits is {}", fields.waits));
        }
        if !refused.is_empty() && !fields.tombs {
            return Err("tombstones, but the record does not say so".to_owned());
        }
        let held = fields.ends > now_us && fields.state != 'F';
        if held && fields.lives < fields.ends + KEPT_MS * 1000 {
            return Err("the record outlives its lease by too little".to_owned());
        }
        // Keys expire by the server's own clock; minutes do not matter.
        let lives_ms = fields.lives.saturating_sub(now_us) / 1000;
        if stored.lives_ms + 600_000 < lives_ms as i64 && !self.clock_goes_back {
            return Err(format!("the key lives {} ms, not {lives_ms}", stored.lives_ms));
        }
        let Some((owner, ())) = self.record.owner() else {
            return same("owner", &None, &(fields.base > 0).then_some(&fields.owner));
        };
        let state = match self.record.state(now) {
            State::Free => 'F',
            State::Kept => 'K',
            State::Held if self.record.is_confirmed() => 'H',
            State::Held => 'O',
        };
        let remaining = self.record.remaining(now).as_micros() as u64;
        same("state", &state, &if held { fields.state } else { 'F' })?;
        same("owner", &owner.to_string(), &fields.owner)?;
        same("base", &self.record.base().map_or(0, Token::get), &fields.base)?;
        same("top", &self.record.top().map_or(0, Token::get), &fields.top)?;
        same("remaining", &remaining, &if held { fields.ends - now_us } else { 0 })?;
        same("tail", &messages::tail(owner), &fields.tail)
    }
}

fn buries(request: &Request) -> bool {
    matches!(request, Request::Release(release) | Request::Rotate(release, _) if release.suspect)
}

fn attempts_of(request: &Request) -> Vec<AttemptId> {
    match request {
        Request::Acquire(AcquireRequest { attempt, .. }) | Request::Renew(attempt, ..) => {
            vec![*attempt]
        }
        Request::Release(release) => vec![release.attempt],
        Request::Rotate(release, request) => vec![release.attempt, request.attempt],
        Request::Force(_) => vec![],
    }
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    record: &T,
    scripts: &T,
) -> Result<(), String> {
    match record == scripts {
        true => Ok(()),
        false => Err(format!("{what}: the record has {record:?}, the scripts {scripts:?}")),
    }
}

pub(super) fn at(now_us: u64) -> Now {
    Now { steady_ns: now_us * 1000, wall_ns: now_us * 1000 }
}

/// Returns the number of an attempt's client.
pub(super) fn place(attempt: AttemptId) -> usize {
    usize::from(attempt.to_bytes()[7])
}
