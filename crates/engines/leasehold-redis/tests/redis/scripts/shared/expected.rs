//! The expected answers and data, by the read-write record of `leasehold-proto`.
//!
//! The scripts differ in how they store the loss of a reader: a read phase reserves the token after its
//! own, and a loss is stored as that one. They note when a waiter asked only while clients read under
//! the lock or wait to read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::handoff::{AcquireRequest, Part, Push, ReleaseRequest, Renewed};
use leasehold_proto::read_write::{Answer, Converted, Mode, Parts, Phase, Record};
use leasehold_proto::{AttemptId, ClientId, Token, TokenBlock};
use leasehold_sim::script::{CLIENTS, terms};

use super::super::KEPT_MS;
use super::super::expected::{at, place, same};
use super::super::messages::{self, Fields, member};
use super::super::server::{Server, key};
use super::super::steps::UNIT;
use super::steps::{Ask, End, Op, Which};

const LOCK: usize = 0;

/// The keys of the lock, as the scripts want them.
pub(super) const ENDS: [&str; 7] = ["", ":q", ":r", ":t", ":m", ":i", ":s"];

/// The whole expected state.
#[derive(Debug)]
pub(super) struct Expected<const CAP: usize> {
    record: Record<(), CAP>,
    /// The leases by attempt, and all of them.
    told: BTreeMap<AttemptId, TokenBlock>,
    latest: Option<TokenBlock>,
    attempts: BTreeSet<AttemptId>,
    listening: Vec<bool>,
    now_us: u64,
    clock_goes_back: bool,
    /// Writers use the scripts of exclusive locks first.
    exclusive_first: bool,
}

/// A call of the shared scripts.
struct Call {
    acquires: bool,
    arguments: Vec<String>,
    /// The same for the scripts of exclusive locks, if they have it: the script and its arguments.
    exclusive: Option<(Script, Vec<String>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Script {
    Acquire,
    Renew,
    Release,
    Rotate,
    Force,
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
            // The two kinds of scripts have other limits, which no step reaches then.
            exclusive_first: seed.is_multiple_of(4),
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
            // The scripts of exclusive locks do not look for a queue of readers without a record.
            Op::ForgetRecord if self.exclusive_first => {}
            Op::ForgetRecord => {
                self.record.forget(Part::Lease);
                server.remove(LOCK, &[""]);
            }
            Op::ForgetAll => {
                self.record.forget(Part::Lease);
                self.record.forget(Part::Queue);
                server.remove(LOCK, &["", ":q", ":r", ":m", ":i", ":s"]);
            }
            Op::ForgetTombstones => {
                self.record.forget(Part::Tombstones);
                server.remove(LOCK, &[":t"]);
            }
            _ => {
                if let Some(call) = self.call(op) {
                    return self.compare_call(server, op, &call);
                }
            }
        }
        Ok(())
    }

    fn compare_call(&mut self, server: &mut Server, op: Op, call: &Call) -> Result<(), String> {
        self.forget_unseen(&server.texts(LOCK, ":s"));
        // Only the shared scripts hand on a lock whose lease is over whatever they are asked for.
        let now = at(self.now_us);
        let waits = self.record.waiters().next().is_some();
        let overdue = self.record.phase(now) == Phase::Free && waits;
        let mut keys: Vec<String> = ENDS.iter().map(|end| key(LOCK) + end).collect();
        let mut answer = None;
        if let (Some((script, arguments)), true, false) =
            (&call.exclusive, self.exclusive_first, overdue)
        {
            let hash = match script {
                Script::Acquire => &server.acquire,
                Script::Renew => &server.renew,
                Script::Release => &server.release,
                Script::Rotate => &server.rotate,
                Script::Force => &server.force,
            };
            let (said, heard) = server.call(self.now_us, &hash.clone(), &keys[..1], arguments);
            let said = said.text();
            if said != "XS" && said != "S" {
                answer = Some((said, heard, true));
            } else if !heard.is_empty() {
                return Err(format!("{said}, and pushes: {heard:?}"));
            }
        }
        let (said, heard, by_exclusive) = match answer {
            Some(answer) => answer,
            None => {
                let hash = server.shared(CAP, call.acquires);
                let (said, heard) =
                    server.call(self.now_us, &hash, &std::mem::take(&mut keys), &call.arguments);
                (said.text(), heard, false)
            }
        };
        let (expected, pushed) = self.carry_out(op);
        let said = match op {
            Op::Acquire(ask) if by_exclusive => {
                messages::full_grant(&said, terms(ask.attempt, UNIT).1)
            }
            _ => said,
        };
        // In lower case: more dead waiters are left.
        let release =
            matches!(op, Op::Release(_) | Op::Rotate(..) | Op::Force(_) | Op::ForceOne(_));
        let said = match release {
            true => said[..1].to_uppercase() + &said[1..],
            false => said,
        };
        same("answer", &expected, &said)?;
        same("pushes", &pushed, &heard)?;
        self.compare_stored(server, op)
    }

    /// The scripts do not know when these waiters asked: the time counts from now on.
    fn forget_unseen(&mut self, seen: &[String]) {
        let now = at(self.now_us);
        let mut parts = Parts::from(self.record.clone());
        for waiter in &mut parts.queue {
            if !seen.contains(&waiter.attempt.to_string()) {
                waiter.seen_ns = now.steady_ns;
            }
        }
        self.record = parts.into();
    }

    /// Each side removes expired tombstones at another time, and a clock that goes back revives them.
    fn drop_expired_tombstones(&mut self, server: &mut Server) {
        let now = at(self.now_us);
        let mut parts = Parts::from(self.record.clone());
        parts.tombstones.retain(|(_, until)| *until > now.steady_ns);
        self.record = parts.into();
        server.drop_tombstones(LOCK, self.now_us);
    }

    /// A read phase has reserved the token after its own.
    fn reserve(&mut self) {
        let mut parts = Parts::from(self.record.clone());
        if parts.phase == Phase::Read && parts.top == parts.base {
            parts.top += 1;
        }
        self.record = parts.into();
    }

    fn block(&self, which: Which, attempt: AttemptId) -> Option<TokenBlock> {
        match which {
            Which::Unheard => None,
            Which::Own => self.told.get(&attempt).copied(),
            Which::Latest => self.latest,
        }
    }

    fn end(&self, end: End) -> ReleaseRequest {
        let End { attempt, which, used, suspect, keep } = end;
        let block = self.block(which, attempt);
        let last = block.zip(used).and_then(|(block, used)| {
            Token::new((block.base().get() + used).min(block.top().get()))
        });
        ReleaseRequest { attempt, base: block.map(TokenBlock::base), last, suspect, keep }
    }

    /// Returns the call of a step; `None` if it names a lease that no client has heard of.
    fn call(&self, op: Op) -> Option<Call> {
        let asks = |ask: &Ask| {
            let letter = if ask.mode == Mode::Read { 'R' } else { 'W' };
            format!("{letter}{}{}", ask.attempt, messages::says(&request(*ask)))
        };
        let ends = |end: End| messages::release(&self.end(end));
        let word = str::to_owned;
        let (words, exclusive) = match op {
            Op::Acquire(ask) => {
                let arguments = vec![ask.attempt.to_string(), messages::says(&request(ask))];
                let writes = ask.mode == Mode::Write;
                (vec![word("A"), asks(&ask)], writes.then_some((Script::Acquire, arguments)))
            }
            Op::Renew(attempt, which) => {
                let base = self.block(which, attempt)?.base().get();
                let lease = format!("{attempt}{base:016}");
                let ttl = format!("{:08}", terms(attempt, UNIT).0.as_millis());
                let words = vec![word("N"), format!("{lease}{ttl}")];
                (words, Some((Script::Renew, vec![lease, ttl])))
            }
            Op::Release(end) => {
                let arguments = vec![String::new(), ends(end)];
                (vec![word("E"), ends(end)], Some((Script::Release, arguments)))
            }
            Op::Rotate(end, ask) => {
                let says = format!("{}{}", ask.attempt, messages::says(&request(ask)));
                let writes = ask.mode == Mode::Write;
                let words = vec![word("E"), ends(end), asks(&ask)];
                (words, writes.then(|| (Script::Rotate, vec![ends(end), says])))
            }
            Op::Downgrade(end, ask) => (vec![word("D"), ends(end), asks(&ask)], None),
            Op::Upgrade(end, ask, again) => {
                (vec![word("U"), ends(end), asks(&ask), u8::from(again).to_string()], None)
            }
            Op::Force(which) => {
                let token = format!("{:016}", self.block(which, some())?.top().get());
                (vec![word("F"), token.clone()], Some((Script::Force, vec![token])))
            }
            Op::ForceOne(attempt) => (vec![word("O"), attempt.to_string()], None),
            _ => return None,
        };
        Some(Call { acquires: matches!(op, Op::Acquire(_)), arguments: words, exclusive })
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
        let (forced, renewed) = match op {
            Op::Force(which) => (self.block(which, some()).map(TokenBlock::top), None),
            Op::Renew(attempt, which) => (None, self.block(which, attempt).map(TokenBlock::base)),
            _ => (None, None),
        };
        let ended = match op {
            Op::Release(end)
            | Op::Rotate(end, _)
            | Op::Downgrade(end, _)
            | Op::Upgrade(end, ..) => Some(self.end(end)),
            _ => None,
        };
        let mut grants: Vec<(AttemptId, TokenBlock)> = Vec::new();
        let mut granted = |ask: Ask, tokens: TokenBlock, waiters: usize| {
            let tokens =
                if ask.mode == Mode::Read { TokenBlock::single(tokens.base()) } else { tokens };
            grants.push((ask.attempt, tokens));
            let wanted = if waiters > 0 { "w" } else { "" };
            format!("G{:016}{:016}{wanted}", tokens.base().get(), tokens.top().get())
        };
        let mut answer = |ask: Ask, answer: Answer| match answer {
            Answer::Granted { tokens, waiters } => granted(ask, tokens, waiters),
            Answer::Queued { .. } => {
                let again = messages::ms(answer.ask_again().unwrap_or_default());
                let Answer::Queued { place, .. } = answer else { unreachable!() };
                format!("Q{now_us:016}{again:010}{place}")
            }
            Answer::Busy(remaining) => format!("B{}", messages::ms(remaining)),
            Answer::Ended => "E".to_owned(),
            Answer::UsedUp => "XT".to_owned(),
        };
        let record = &mut self.record;
        let converted = |said: Converted| match said {
            Converted::Granted { tokens, waiters } => Err((tokens, waiters)),
            Converted::Refused { waiters } => Ok(if waiters > 0 { "Dw" } else { "D" }.to_owned()),
            Converted::Lost => Ok("L".to_owned()),
            Converted::UsedUp => Ok("XT".to_owned()),
        };
        let said = match (op, ended) {
            (Op::Acquire(ask), _) => {
                answer(ask, record.acquire(now, ask.mode, &request(ask), &mut reach))
            }
            (Op::Renew(attempt, _), _) => {
                let base = renewed.unwrap_or(Token::MAX);
                match record.renew(now, attempt, base, terms(attempt, UNIT).0, &mut reach) {
                    Renewed::Renewed { waiters: 0, .. } => "R",
                    Renewed::Renewed { .. } => "W",
                    Renewed::Lost => "L",
                }
                .to_owned()
            }
            (Op::Release(_), Some(end)) => messages::verdict(record.release(now, &end, &mut reach)),
            (Op::Rotate(_, ask), Some(end)) => {
                let (verdict, next) = record.rotate(now, &end, ask.mode, &request(ask), &mut reach);
                messages::verdict(verdict) + &answer(ask, next)
            }
            (Op::Downgrade(_, ask), Some(end)) => {
                converted(record.downgrade(now, &end, &request(ask), &mut reach)).unwrap_or_else(
                    |(tokens, waiters)| answer(ask, Answer::Granted { tokens, waiters }),
                )
            }
            (Op::Upgrade(_, ask, again), Some(end)) => {
                converted(record.upgrade(now, &end, &request(ask), again, &mut reach))
                    .unwrap_or_else(|(tokens, waiters)| {
                        answer(ask, Answer::Granted { tokens, waiters })
                    })
            }
            (Op::Force(_), _) => {
                let token = forced.unwrap_or(Token::MAX);
                messages::forced(record.force_release(now, token, &mut reach))
            }
            (Op::ForceOne(attempt), _) => {
                messages::forced(record.force_release_attempt(now, attempt, &mut reach))
            }
            _ => String::new(),
        };
        for (attempt, push) in &pushes {
            if let Push::Granted { tokens, .. } = push {
                grants.push((*attempt, *tokens));
            }
        }
        for (attempt, tokens) in grants {
            self.told.insert(attempt, tokens);
            self.latest = Some(tokens);
        }
        let ended = ended.map(|end| end.attempt);
        let asked = match op {
            Op::Acquire(ask)
            | Op::Rotate(_, ask)
            | Op::Downgrade(_, ask)
            | Op::Upgrade(_, ask, _) => Some(ask.attempt),
            _ => None,
        };
        self.attempts.extend(ended.into_iter().chain(asked));
        self.reserve();
        let words = |(attempt, push): &(AttemptId, Push)| {
            messages::push(*attempt, *push, now_us, &key(LOCK))
        };
        (said, pushes.iter().map(words).collect())
    }

    fn compare_stored(&self, server: &mut Server, op: Op) -> Result<(), String> {
        let now = at(self.now_us);
        let parts = Parts::from(self.record.clone());
        let stored = server.stored(&[LOCK]).remove(0);
        let waits = |mode: Mode| -> Vec<String> {
            let of_mode = parts.queue.iter().filter(|waiter| waiter.mode == mode);
            of_mode.map(|waiter| member(waiter.attempt)).collect()
        };
        let (writers, readers) = (waits(Mode::Write), waits(Mode::Read));
        same("writers", &writers, &server.texts(LOCK, ":q"))?;
        same("readers", &readers, &server.texts(LOCK, ":r"))?;
        let buries = match op {
            Op::Release(end) | Op::Rotate(end, _) => end.suspect,
            _ => false,
        };
        let refused = self.attempts.iter().filter(|attempt| self.record.is_refused(now, **attempt));
        let refused: BTreeSet<String> = refused.map(AttemptId::to_string).collect();
        let over = |tomb: &&[String]| {
            buries || tomb[1].parse::<f64>().unwrap_or_default() as u64 > self.now_us
        };
        let tombs = stored.tombs.chunks(2).filter(over);
        let tombs: BTreeSet<String> = tombs.map(|tomb| tomb[0].clone()).collect();
        same("refused", &refused, &tombs)?;
        let Some(record) = &stored.record else {
            return same("last holder", &None, &parts.last.map(|(attempt, ())| attempt));
        };
        let fields = Fields::read(record)?;
        let reads = parts.phase == Phase::Read;
        let waiting = !parts.queue.is_empty();
        let shared = reads || parts.phase == Phase::Free && parts.turn == Mode::Write && waiting;
        if fields.shared != shared && (shared || fields.shared) {
            return Err(format!("shared: the record says {shared}\n{record}"));
        }
        let flags = u8::from(!writers.is_empty()) + 4 * u8::from(!readers.is_empty());
        same("flags", &flags, &(u8::from(fields.waits) + 4 * u8::from(fields.readers)))?;
        if !refused.is_empty() && !fields.tombs {
            return Err("tombstones, but the record does not say so".to_owned());
        }
        let lost = parts.lost + u64::from(parts.lost_mode == Mode::Read);
        if let Some((owner, ())) = parts.last {
            same("owner", &owner.to_string(), &fields.owner)?;
            same(
                "base, top and lost",
                &(parts.base, parts.top, lost),
                &(fields.base, fields.top, fields.lost),
            )?;
            same("tail", &messages::tail(owner), &fields.tail)?;
        }
        let held = fields.ends > self.now_us && fields.state != 'F';
        let confirmed = parts.members.first().is_some_and(|member| member.confirmed);
        let state = match self.record.phase(now) {
            Phase::Free => 'F',
            Phase::Read => 'R',
            Phase::Write if confirmed => 'H',
            Phase::Write => 'O',
            Phase::Kept => 'K',
        };
        same("state", &state, &if held { fields.state } else { 'F' })?;
        if held {
            let remaining = self.record.remaining(now).as_micros() as u64;
            same("remaining", &remaining, &(fields.ends - self.now_us))?;
            if fields.lives < fields.ends + KEPT_MS * 1000 {
                return Err("the record outlives its lease by too little".to_owned());
            }
        }
        self.compare_members(server, &parts, reads)?;
        if !shared && readers.is_empty() {
            for end in [":m", ":i", ":s", ":r"] {
                same(end, &Vec::new(), &server.texts(LOCK, end))?;
            }
        }
        Ok(())
    }

    /// Compares the members of a read phase, and how long their keys live.
    fn compare_members(
        &self,
        server: &mut Server,
        parts: &Parts<()>,
        reads: bool,
    ) -> Result<(), String> {
        if !reads {
            return Ok(());
        }
        let members: BTreeMap<String, u64> = parts
            .members
            .iter()
            .map(|member| (member.attempt.to_string(), member.until_ns / 1000))
            .collect();
        let scores = server.scores(LOCK, ":m");
        let stored: BTreeMap<String, u64> = scores
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].parse::<f64>().unwrap_or_default() as u64))
            .collect();
        same("members", &members, &stored)?;
        let tail = |member: &leasehold_proto::read_write::Member<()>| {
            let (state, tail) =
                (if member.confirmed { 'H' } else { 'O' }, messages::tail(member.attempt));
            format!("{}{state}{:04}{tail}", member.attempt, tail.len())
        };
        let tails: BTreeSet<String> = parts.members.iter().map(tail).collect();
        same("tails", &tails, &server.texts(LOCK, ":i").into_iter().collect())?;
        let latest = parts.members.iter().map(|member| member.until_ns / 1000).max();
        let left_ms = latest.unwrap_or_default().saturating_sub(self.now_us) / 1000;
        for end in ["", ":m", ":i"] {
            let lives_ms = server.lives_ms(LOCK, end);
            // Keys expire by the server's own clock; minutes do not matter.
            if lives_ms + 600_000 < left_ms as i64 + KEPT_MS as i64 && !self.clock_goes_back {
                return Err(format!("{end} lives {lives_ms} ms, a lease {left_ms} ms"));
            }
        }
        Ok(())
    }
}

/// An attempt whose leases a forced release names.
fn some() -> AttemptId {
    AttemptId::new(ClientId::from_bits(0), 0, 0)
}

fn request(ask: Ask) -> AcquireRequest {
    let (ttl, tokens) = terms(ask.attempt, UNIT);
    let Ask { attempt, wait, fair, .. } = ask;
    AcquireRequest { attempt, ttl, wait, fair, tokens, tag: () }
}
