//! The expected answers and data, by the semaphore record of `leasehold-proto`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::handoff::{Renewed, Verdict};
use leasehold_proto::semaphore::{
    AcquireRequest, Answer, Conflict, Demand, Forced, Limit, Mark, Parts, Permit, Push, Record,
    ReleaseRequest,
};
use leasehold_proto::{AttemptId, ClientId, Token};
use leasehold_sim::script::{CLIENTS, terms};

use super::super::KEPT_MS;
use super::super::expected::{at, place, same};
use super::super::messages;
use super::super::server::{Server, key};
use super::super::steps::UNIT;
use super::steps::{Ask, End, Op, Which, weight};

const LOCK: usize = 0;

/// The keys of the semaphore, as the scripts want them.
pub(super) const ENDS: [&str; 8] = ["", ":t", ":pq", ":ps", ":pe", ":pi", ":pf", ":pm"];

/// The whole expected state.
#[derive(Debug)]
pub(super) struct Expected<const CAP: usize> {
    record: Record<(), CAP>,
    /// The permits by attempt, and the last of all.
    told: BTreeMap<AttemptId, Permit>,
    latest: Option<Permit>,
    attempts: BTreeSet<AttemptId>,
    listening: Vec<bool>,
    now_us: u64,
    clock_goes_back: bool,
}

impl<const CAP: usize> Expected<CAP> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            record: Record::default(),
            told: BTreeMap::new(),
            latest: None,
            attempts: BTreeSet::new(),
            listening: vec![true; CLIENTS as usize],
            now_us: 1_700_000_000_123_456,
            clock_goes_back: seed % 8 == 7,
        }
    }

    /// Carries out a step on both sides.
    pub(super) fn compare(&mut self, server: &mut Server, op: Op) -> Result<(), String> {
        // So that times do not fall on whole milliseconds.
        self.now_us += 37;
        if self.clock_goes_back && matches!(op, Op::Pass(_)) {
            self.drop_expired_tombstones(server);
        }
        match op {
            Op::Pass(time) if self.clock_goes_back && time > Duration::from_secs(60) => {
                self.now_us -= time.as_micros() as u64;
            }
            Op::Pass(time) => self.now_us += time.as_micros() as u64,
            Op::Listen(client, on) => {
                let client = place(AttemptId::new(client, 0, 0));
                self.listening[client] = on;
                server.listen(client, on);
            }
            Op::ForgetAll => {
                self.forget(|parts| *parts = only_tombstones(parts));
                server.remove(LOCK, &["", ":pq", ":ps", ":pe", ":pi", ":pf", ":pm"]);
            }
            // Without the record, the other keys say nothing.
            Op::ForgetRecord => {
                self.forget(|parts| *parts = only_tombstones(parts));
                server.remove(LOCK, &[""]);
            }
            Op::ForgetPart(part) => {
                let end = [":pe", ":pi", ":pf", ":pm"][usize::from(part)];
                if !server.texts(LOCK, end).is_empty() {
                    self.forget(|parts| forget_key(parts, end));
                    server.remove(LOCK, &[end]);
                    // Any call finds it out.
                    let nobody = AttemptId::new(ClientId::from_bits(0), 0, 0);
                    return self.compare(server, Op::Renew(nobody, nobody, Which::Unheard));
                }
            }
            Op::ForgetQueue => {
                self.forget(|parts| parts.queue.clear());
                server.remove(LOCK, &[":pq"]);
            }
            Op::ForgetTombstones => {
                self.forget(|parts| parts.tombstones.clear());
                server.remove(LOCK, &[":t"]);
            }
            _ => {
                if let Some((acquires, words)) = self.call(op) {
                    return self.compare_call(server, op, acquires, &words);
                }
            }
        }
        Ok(())
    }

    fn compare_call(
        &mut self,
        server: &mut Server,
        op: Op,
        acquires: bool,
        words: &[String],
    ) -> Result<(), String> {
        let keys: Vec<String> = ENDS.iter().map(|end| key(LOCK) + end).collect();
        let hash = server.semaphore(CAP, acquires);
        let (said, heard) = server.call(self.now_us, &hash, &keys, words);
        let (expected, pushed) = self.carry_out(op);
        same("answer", &expected, &said.text())?;
        same("pushes", &pushed, &heard)?;
        self.compare_stored(server, op)
    }

    fn forget(&mut self, change: impl FnOnce(&mut Parts<()>)) {
        let mut parts = Parts::from(self.record.clone());
        change(&mut parts);
        self.record = parts.into();
    }

    /// Each side removes expired tombstones at another time, and a clock that goes back revives them.
    fn drop_expired_tombstones(&mut self, server: &mut Server) {
        let now = at(self.now_us);
        self.forget(|parts| parts.tombstones.retain(|(_, until)| *until > now.steady_ns));
        server.drop_tombstones(LOCK, self.now_us);
    }

    fn permit(&self, which: Which, attempt: AttemptId) -> Option<&Permit> {
        match which {
            Which::Unheard => None,
            Which::Own | Which::OwnToken => self.told.get(&attempt),
            Which::Latest => self.latest.as_ref(),
        }
    }

    fn release(&self, end: End) -> ReleaseRequest {
        let End { attempt, which, used, suspect } = end;
        let permit = self.permit(which, attempt);
        let last = permit.zip(used).and_then(|(permit, used)| {
            Token::new((permit.tokens.base().get() + used).min(permit.tokens.top().get()))
        });
        let slot = permit.and_then(|permit| permit.slots.first().copied());
        let slot = slot.filter(|_| !matches!(which, Which::OwnToken));
        ReleaseRequest {
            attempt,
            base: permit.map(|permit| permit.tokens.base()),
            last,
            slot,
            suspect,
        }
    }

    fn request(&self, ask: Ask) -> AcquireRequest {
        let (ttl, tokens) = terms(ask.attempt, UNIT);
        let stored = self.record.limit().map_or(4, Limit::get);
        let limit = ask.limit.unwrap_or(stored);
        let slots = weight(ask.attempt);
        // A waiter that waits since before a change names the limit of that time.
        let demand = Demand::new(slots, limit.max(slots)).unwrap();
        AcquireRequest { attempt: ask.attempt, demand, ttl, wait: ask.wait, tokens, tag: () }
    }

    /// Returns the call of a step, and whether it acquires; `None` if it names a permit that no client
    /// has heard of.
    fn call(&self, op: Op) -> Option<(bool, Vec<String>)> {
        let asks = |ask: Ask| {
            let request = self.request(ask);
            let wait = u8::from(request.wait);
            format!("{wait}{:05}{}", request.demand.limit().get(), member(ask.attempt))
        };
        let word = str::to_owned;
        Some(match op {
            Op::Acquire(ask) => (true, vec![word("A"), asks(ask)]),
            Op::Renew(one, other, which) => {
                let lease = |attempt: AttemptId| {
                    let base = self.permit(which, attempt)?.tokens.base().get();
                    let ttl = terms(attempt, UNIT).0.as_millis();
                    Some(format!("{attempt}{base:016}{ttl:08}"))
                };
                (false, vec![word("N"), lease(one)? + &lease(other)?])
            }
            Op::Release(end) => (false, vec![word("E"), ends(&self.release(end))]),
            Op::Rotate(end, ask) => (false, vec![word("E"), ends(&self.release(end)), asks(ask)]),
            Op::Limit(older, limit) => {
                let version = self.record.limit_version().saturating_sub(older);
                (false, vec![word("L"), format!("{version:016}{limit:05}")])
            }
            Op::Force(which, slot) => {
                let permit = self.permit(which, some())?;
                let slot = slot.then(|| permit.slots[permit.slots.len() - 1]);
                let slot = slot.map_or(word("-"), |slot| format!("{slot:05}"));
                (false, vec![word("F"), format!("{:016}{slot}", permit.tokens.top().get())])
            }
            Op::ForceOne(attempt) => (false, vec![word("O"), attempt.to_string()]),
            _ => return None,
        })
    }

    /// Returns the record's answer in the format of the scripts, and its pushes.
    fn carry_out(&mut self, op: Op) -> (String, Vec<String>) {
        let (now, now_us) = (at(self.now_us), self.now_us);
        let mut pushes: Vec<(AttemptId, Push)> = Vec::new();
        let listening = self.listening.clone();
        let mut reach = |attempt: AttemptId, push: Push| {
            let there = listening[place(attempt)];
            if there {
                pushes.push((attempt, push));
            }
            there
        };
        let mut grants: Vec<(AttemptId, Permit)> = Vec::new();
        let mut asked = Vec::new();
        let said = match op {
            Op::Acquire(ask) => {
                asked.push(ask.attempt);
                let answer = self.record.acquire(now, &self.request(ask), &mut reach);
                self.answer(ask, answer, &mut grants)
            }
            Op::Renew(one, other, which) => [one, other]
                .map(|attempt| {
                    let base = self.permit(which, attempt).map(|permit| permit.tokens.base());
                    let ttl = terms(attempt, UNIT).0;
                    match self.record.renew(now, attempt, base.unwrap_or(Token::MAX), ttl) {
                        Renewed::Renewed { .. } => "R",
                        Renewed::Lost => "L",
                    }
                })
                .concat(),
            Op::Release(end) => {
                asked.push(end.attempt);
                let verdict = self.record.release(now, &self.release(end), &mut reach);
                self.verdict(verdict)
            }
            Op::Rotate(end, ask) => {
                asked.extend([end.attempt, ask.attempt]);
                let request = self.request(ask);
                let verdict = self.record.release(now, &self.release(end), &mut reach);
                let verdict = self.verdict(verdict);
                let answer = self.record.acquire(now, &request, &mut reach);
                verdict + &self.answer(ask, answer, &mut grants)
            }
            Op::Limit(older, limit) => {
                let version = self.record.limit_version().saturating_sub(older);
                match self.record.set_limit(now, version, Limit::new(limit).unwrap(), &mut reach) {
                    Ok(version) => self.told_more("S") + &format!("{version:016}"),
                    Err(Conflict { limit, version }) => {
                        format!("C{:05}{version:016}", limit.map_or(0, Limit::get))
                    }
                }
            }
            Op::Force(which, slot) => {
                let permit = self.permit(which, some()).unwrap();
                let slot = slot.then(|| permit.slots[permit.slots.len() - 1]);
                let token = permit.tokens.top();
                match self.record.force_release(now, token, slot, &mut reach) {
                    Forced::Ended => self.told_more("E"),
                    Forced::NotHeld => "N".to_owned(),
                    Forced::Several => "M".to_owned(),
                }
            }
            Op::ForceOne(attempt) => {
                match self.record.force_release_attempt(now, attempt, &mut reach) {
                    Forced::Ended => self.told_more("E"),
                    _ => "N".to_owned(),
                }
            }
            _ => String::new(),
        };
        for (attempt, push) in &pushes {
            if let Push::Granted { permit, .. } = push {
                grants.push((*attempt, permit.clone()));
            }
        }
        for (attempt, permit) in grants {
            self.latest = Some(permit.clone());
            self.told.insert(attempt, permit);
        }
        self.attempts.extend(asked);
        (said, pushes.iter().map(|(attempt, push)| words(*attempt, push, now_us)).collect())
    }

    fn answer(&self, ask: Ask, answer: Answer, grants: &mut Vec<(AttemptId, Permit)>) -> String {
        let again = messages::ms(answer.ask_again().unwrap_or_default());
        match answer {
            Answer::Granted(permit) => {
                let (base, top) = (permit.tokens.base().get(), permit.tokens.top().get());
                let others = if self.record.waiters().len() > 0 { 'w' } else { '-' };
                let slots = list(&permit);
                grants.push((ask.attempt, permit));
                format!("G{base:016}{top:016}{others}{slots}")
            }
            Answer::Queued { place, .. } => format!("Q{:016}{again:010}{place}", self.now_us),
            Answer::Busy(_) => format!("B{again}"),
            Answer::Invalid(limit) => format!("I{:05}", limit.get()),
            Answer::Ended => "E".to_owned(),
            Answer::UsedUp => "XT".to_owned(),
        }
    }

    fn verdict(&self, verdict: Verdict) -> String {
        self.told_more(&messages::verdict(verdict))
    }

    /// In lower case if waiters are left that another call may serve.
    fn told_more(&self, answer: &str) -> String {
        match self.record.needs_another_step(at(self.now_us)) {
            true => answer.to_lowercase(),
            false => answer.to_owned(),
        }
    }

    fn compare_stored(&self, server: &mut Server, op: Op) -> Result<(), String> {
        let now = at(self.now_us);
        let parts = Parts::from(self.record.clone());
        let refused = self.attempts.iter().filter(|attempt| self.record.is_refused(now, **attempt));
        let refused: BTreeSet<String> = refused.map(AttemptId::to_string).collect();
        let buries = match op {
            Op::Release(end) | Op::Rotate(end, _) => end.suspect,
            _ => false,
        };
        let tombs: BTreeSet<String> = scores(server, ":t")
            .into_iter()
            .filter(|(_, until)| buries || *until > self.now_us)
            .map(|(attempt, _)| attempt)
            .collect();
        same("refused", &refused, &tombs)?;
        let record = server.string(LOCK);
        let Some((limit, version)) = parts.limit else { return same("record", &None, &record) };
        let record = record.ok_or("there is no record")?;
        let (used, permits) = (parts.slots.len(), parts.permits.len());
        let free = used as u32 - self.record.held();
        let counts = format!("{:05}{version:016}{used:05}{free:05}{permits:05}", limit.get());
        same("record", &counts.as_str(), &record.get(19..).unwrap_or_default())?;
        let waiters: Vec<String> = parts.queue.iter().map(|it| member(it.attempt)).collect();
        same("queue", &waiters, &server.texts(LOCK, ":pq"))?;
        let seen: BTreeMap<String, u64> =
            parts.queue.iter().map(|it| (it.attempt.to_string(), it.seen_ns / 1000)).collect();
        let mut stored = scores(server, ":ps");
        stored.retain(|attempt, _| seen.contains_key(attempt));
        same("seen", &seen, &stored)?;
        let ends: BTreeMap<String, u64> =
            parts.permits.iter().map(|it| (it.attempt.to_string(), it.until_ns / 1000)).collect();
        same("ends", &ends, &scores(server, ":pe"))?;
        let permits: BTreeSet<String> = parts
            .permits
            .iter()
            .map(|it| {
                let (state, tail) =
                    (if it.confirmed { 'H' } else { 'O' }, messages::tail(it.attempt));
                let (base, top) = (it.permit.tokens.base().get(), it.permit.tokens.top().get());
                let slots = list(&it.permit);
                format!("{}{state}{base:016}{top:016}{slots};{:04}{tail}", it.attempt, tail.len())
            })
            .collect();
        let stored = server.texts(LOCK, ":pi");
        let without_since = |text: &String| format!("{}{}", &text[..65], &text[81..]);
        same("permits", &permits, &stored.iter().map(without_since).collect())?;
        let held: BTreeSet<u32> =
            parts.permits.iter().flat_map(|it| it.permit.slots.iter().copied()).collect();
        let free: BTreeMap<String, u64> = (0..used as u32)
            .filter(|slot| !held.contains(slot))
            .map(|slot| (slot.to_string(), slot.into()))
            .collect();
        same("free slots", &free, &scores(server, ":pf"))?;
        let marks: BTreeMap<String, u64> = parts
            .slots
            .iter()
            .flat_map(|(slot, mark)| {
                [(format!("t{slot}"), mark.top), (format!("l{slot}"), mark.lost)]
            })
            .collect();
        same("tokens of slots", &marks, &scores(server, ":pm"))?;
        self.compare_lives(server, &record, ends.values().max().copied())
    }

    /// All keys live beyond the last permit as long as a record; a limit that was changed has no end.
    fn compare_lives(
        &self,
        server: &mut Server,
        record: &str,
        last: Option<u64>,
    ) -> Result<(), String> {
        let left_ms = last.unwrap_or_default().saturating_sub(self.now_us) / 1000;
        for end in ENDS.iter().filter(|end| **end != ":t") {
            let lives_ms = server.lives_ms(LOCK, end);
            let (absent, endless) = (lives_ms == -2, end.is_empty() && record.starts_with("S1K"));
            if absent && !end.is_empty() || endless && lives_ms == -1 {
                continue;
            }
            // Keys expire by the server's own clock; minutes do not matter.
            if endless
                || lives_ms + 600_000 < left_ms as i64 + KEPT_MS as i64 && !self.clock_goes_back
            {
                return Err(format!("{end} lives {lives_ms} ms, a permit {left_ms} ms"));
            }
        }
        Ok(())
    }
}

/// What the scripts keep without a key.
fn forget_key(parts: &mut Parts<()>, end: &str) {
    let is_held = |slot: &u32| parts.permits.iter().find(|one| one.permit.slots.contains(slot));
    let unknown = |mark: &mut Mark| (mark.top, mark.lost) = (mark.top + 1, mark.top + 1);
    for (slot, mark) in &mut parts.slots {
        match (end, is_held(slot)) {
            (":pe", Some(one)) => mark.lost = one.permit.tokens.base().get(),
            (":pi", Some(_)) | (":pf", None) => unknown(mark),
            _ => {}
        }
    }
    match end {
        ":pe" | ":pi" => parts.permits.clear(),
        ":pm" => (parts.slots, parts.permits) = Default::default(),
        _ => {}
    }
}

fn only_tombstones(parts: &Parts<()>) -> Parts<()> {
    let tombstones = parts.tombstones.clone();
    Parts { limit: None, slots: vec![], permits: vec![], queue: vec![], tombstones }
}

fn scores(server: &mut Server, end: &str) -> BTreeMap<String, u64> {
    let number = |text: &String| text.parse::<f64>().unwrap_or_default() as u64;
    let texts = server.scores(LOCK, end);
    texts.chunks(2).map(|pair| (pair[0].clone(), number(&pair[1]))).collect()
}

fn list(permit: &Permit) -> String {
    permit.slots.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the queue entry of an attempt.
fn member(attempt: AttemptId) -> String {
    format!("{attempt}{:05}{}", weight(attempt), &messages::member(attempt)[32..])
}

fn ends(release: &ReleaseRequest) -> String {
    let number = |token: Option<Token>| token.map_or(0, Token::get);
    let flags = u8::from(release.base.is_some())
        + 2 * u8::from(release.last.is_some())
        + 4 * u8::from(release.suspect)
        + 8 * u8::from(release.slot.is_some());
    let (base, last, slot) = (number(release.base), number(release.last), release.slot);
    let (attempt, slot) = (release.attempt, slot.unwrap_or_default());
    format!("{attempt}{base:016}{last:016}{flags:02}{slot:05}{}", member(attempt))
}

fn words(attempt: AttemptId, push: &Push, now_us: u64) -> String {
    let key = key(LOCK);
    let message = match push {
        Push::Granted { permit, offer, waiters } => format!(
            "P{attempt}{:016}{:016}{now_us:016}{:08}{}{} {key}",
            permit.tokens.base().get(),
            permit.tokens.top().get(),
            offer.as_millis(),
            if *waiters > 0 { 'w' } else { '-' },
            list(permit),
        ),
        Push::Next { remaining } => format!("N{attempt}{:010}{key}", messages::ms(*remaining)),
        Push::Refused { limit } => format!("R{attempt}{:05}{key}", limit.get()),
        Push::Lost { base } => format!("L{attempt}{:016}{key}", base.get()),
    };
    format!("to {}: {message}", &attempt.to_string()[..16])
}

/// An attempt whose permit a forced release names.
fn some() -> AttemptId {
    AttemptId::new(ClientId::from_bits(0), 0, 0)
}
