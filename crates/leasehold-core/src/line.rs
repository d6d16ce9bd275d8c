//! Who of this process wants a lock: one asks the engine or holds, the others wait behind it in
//! memory, in order of arrival.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::{AttemptId, Deadline, Now, Terms};
use tokio::sync::Notify;

use crate::backend::{Answer, Ask, Grant, Origin};
use crate::hold::{ByName, Hold};
use crate::shared::{give_places_back, give_room_back};
use crate::{Error, Name, Result};

/// The lines of a client, one per name, that exist only while somebody is in them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    table: Mutex<Table>,
    /// How many stand behind the front of a line.
    behind: Arc<AtomicUsize>,
}

/// A name stands in one of them.
#[derive(Debug, Default)]
struct Table {
    /// Lines in which somebody asks, waits, or is waited for from outside.
    busy: HashMap<Name, Line, RandomState>,
    /// Locks that are held undisturbed. There may be very many, so each takes one word.
    quiet: HashSet<ByName, RandomState>,
}

#[derive(Debug)]
struct Line {
    front: Front,
    /// In a box, since whoever asks is mostly alone.
    crowd: Option<Box<Crowd>>,
}

/// Who asks the engine, or holds what may be passed on.
#[derive(Debug)]
struct Front {
    /// For which the engine is asked; `None` for one that has not asked yet.
    attempt: Option<AttemptId>,
    /// Where it hears from the engine and from who was at the front; `None` once it holds.
    slot: Option<Arc<Slot>>,
}

/// Who else wants the lock.
#[derive(Debug, Default)]
struct Crowd {
    /// Those behind the front by the number of their arrival.
    behind: BTreeMap<u64, Arc<Slot>>,
    arrivals: u64,
    /// Steady time since when somebody outside this process has been known to wait for what the
    /// front has.
    wanted_ns: Option<u64>,
}

/// One who waits, and where it hears that something has happened.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) bell: Notify,
    inbox: Mutex<Inbox>,
    pub(crate) wish: Wish,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) terms: Terms,
    pub(crate) fair: bool,
    pub(crate) origin: Arc<Origin>,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// It has come to the front.
    pub(crate) turn: Option<Turn>,
    /// The engine has answered an ask that somebody else has sent for it.
    pub(crate) answer: Option<Told>,
    /// The engine has granted it the lease.
    pub(crate) granted: Option<Grant>,
    /// It is the first in the engine's line: ask again after this long at the latest.
    pub(crate) next: Option<Duration>,
    /// Worth asking at once.
    pub(crate) ask: bool,
    /// Since when the connection to the engine has been broken.
    pub(crate) broken: Option<Now>,
}

/// The answer to an ask that somebody else has sent.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) sent: Now,
    pub(crate) answer: Result<Answer>,
    /// It was sent more than once: another may arrive later.
    pub(crate) again: bool,
}

/// Where in the line a new one stands.
#[derive(Debug)]
pub(crate) enum Entered {
    /// At the front, where it asks the engine with this attempt.
    Front(AttemptId),
    /// Behind others: the number of its arrival.
    Behind(u64),
}

/// What whoever comes to the front finds there.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nothing: ask. Those before it may have heard nothing for some time.
    Ask(Option<Silence>),
    /// The engine knows of an attempt: go on with it.
    Attempt(Box<Pursuit>),
    /// The lease of one who has let go of it.
    Lease(Arc<Hold>),
}

/// An attempt that the engine may know of.
#[derive(Clone, Debug)]
pub(crate) struct Pursuit {
    pub(crate) ask: Ask,
    /// Some ask was not answered and may arrive later.
    pub(crate) unanswered: bool,
    /// Somebody else has asked in exchange for its lease, and no answer was heard of.
    pub(crate) in_exchange: bool,
    /// The engine may know of it.
    pub(crate) known: bool,
    /// When to ask (again); at once if it is not set.
    pub(crate) ask_at: Option<Deadline>,
    /// Nothing is heard from the engine.
    pub(crate) silence: Option<Silence>,
}

/// Since when the engine has not answered, whoever asked; the next in line inherits it, and does
/// not begin to wait anew.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    pub(crate) since: Now,
    /// What came of the last ask, if there was one.
    pub(crate) error: Option<Error>,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of those behind the front of a line, for who wants to know it later.
    pub(crate) fn behind(&self) -> Arc<AtomicUsize> {
        self.behind.clone()
    }

    /// Joins the line. At the front an attempt is drawn, which costs a call to the kernel.
    pub(crate) fn enter(
        &self,
        name: &Name,
        slot: &Arc<Slot>,
        draw: impl FnOnce() -> AttemptId,
    ) -> Entered {
        let mut lines = self.lock();
        let Some(line) = lines.line(name) else {
            let attempt = draw();
            let line = Line::led_by(Some(attempt), Some(slot.clone()));
            lines.busy.insert(name.clone(), line);
            return Entered::Front(attempt);
        };
        let crowd = line.crowd();
        crowd.arrivals += 1;
        crowd.behind.insert(crowd.arrivals, slot.clone());
        self.behind.fetch_add(1, Ordering::Relaxed);
        Entered::Behind(crowd.arrivals)
    }

    /// Leaves the line; false when it has been called to the front already, where its turn is to
    /// be found in its inbox.
    pub(crate) fn leave(&self, name: &Name, number: u64) -> bool {
        let mut lines = self.lock();
        let crowd = lines.busy.get_mut(name).and_then(|line| line.crowd.as_mut());
        let left = crowd.is_some_and(|crowd| crowd.behind.remove(&number).is_some());
        self.behind.fetch_sub(usize::from(left), Ordering::Relaxed);
        left
    }

    /// The front asks with another attempt.
    pub(crate) fn ask(&self, name: &Name, attempt: AttemptId) {
        if let Some(line) = self.lock().busy.get_mut(name) {
            line.front.attempt = Some(attempt);
        }
    }

    /// The front holds; somebody outside has been waiting since `wanted_ns`, or since it was heard
    /// of before. A lease that was acquired past the line leads it only if there is none.
    pub(crate) fn hold(&self, hold: &Arc<Hold>, wanted_ns: Option<u64>) {
        let (name, attempt) = (&hold.name, hold.attempt);
        let mut lines = self.lock();
        if let Some(line) = lines.busy.get_mut(name) {
            if line.front.attempt != Some(attempt) {
                return;
            }
            line.front.slot = None;
            line.want(wanted_ns);
            if line.crowd.is_some() {
                return;
            }
            lines.busy.remove(name);
            give_room_back(&mut lines.busy);
        }
        // One that is there already is left as it is.
        if !lines.quiet.contains(name) {
            lines.quiet.insert(ByName(hold.clone()));
            if let Some(since_ns) = wanted_ns {
                lines.line(name).into_iter().for_each(|line| line.want(Some(since_ns)));
            }
        }
    }

    /// The lease of this client that leads the line, if one does.
    pub(crate) fn holder(&self, name: &Name) -> Option<AttemptId> {
        let lines = self.lock();
        if let Some(ByName(hold)) = lines.quiet.get(name) {
            return Some(hold.attempt);
        }
        lines.busy.get(name).filter(|line| line.front.slot.is_none())?.front.attempt
    }

    /// The front has lost what it holds: the next one asks. One that has yet to take over what was
    /// lost on the way to it finds out by itself.
    pub(crate) fn lost(&self, name: &Name, attempt: AttemptId) {
        let holds = |front: &Front| front.attempt == Some(attempt) && front.slot.is_none();
        self.advance(name, holds, |_, _| (Turn::Ask(None), ()));
    }

    /// The front goes, whose attempt this is (`None`: has not asked): `turn` chooses what the next
    /// finds, knowing whether somebody outside waits, and gives something back besides. `None` when
    /// that attempt does not lead the line, or nobody is behind; then the line is gone.
    pub(crate) fn next<T>(
        &self,
        name: &Name,
        attempt: Option<AttemptId>,
        turn: impl FnOnce(&Wish, Option<u64>) -> (Turn, T),
    ) -> Option<T> {
        self.advance(name, |front| front.attempt == attempt, turn)
    }

    fn advance<T>(
        &self,
        name: &Name,
        goes: impl FnOnce(&Front) -> bool,
        turn: impl FnOnce(&Wish, Option<u64>) -> (Turn, T),
    ) -> Option<T> {
        let mut lines = self.lock();
        if let Some(ByName(hold)) = lines.quiet.get(name) {
            if goes(&Front { attempt: Some(hold.attempt), slot: None }) {
                lines.quiet.remove(name);
                give_places_back(&mut lines.quiet);
            }
            return None;
        }
        let line = lines.busy.get_mut(name).filter(|line| goes(&line.front))?;
        let first = line.crowd.as_mut().and_then(|crowd| crowd.behind.pop_first());
        let Some((_, slot)) = first else {
            lines.busy.remove(name);
            give_room_back(&mut lines.busy);
            return None;
        };
        self.behind.fetch_sub(1, Ordering::Relaxed);
        let wanted_ns = &mut line.crowd().wanted_ns;
        let (turn, besides) = turn(&slot.wish, *wanted_ns);
        if !matches!(turn, Turn::Lease(_)) {
            *wanted_ns = None;
        }
        line.front.attempt = match &turn {
            Turn::Ask(_) => None,
            Turn::Attempt(pursuit) => Some(pursuit.ask.attempt),
            Turn::Lease(hold) => Some(hold.attempt),
        };
        line.front.slot = Some(slot.clone());
        slot.inbox().turn = Some(turn); // Before the line is let go: it may be leaving.
        drop(lines);
        slot.bell.notify_one();
        Some(besides)
    }

    /// Leaves the asking front a message; false when that attempt does not ask (any more).
    pub(crate) fn tell(
        &self,
        name: &Name,
        attempt: AttemptId,
        message: impl FnOnce(&mut Inbox),
    ) -> bool {
        let lines = self.lock();
        let front = lines.busy.get(name).map(|line| &line.front);
        let front = front.filter(|front| front.attempt == Some(attempt));
        let Some(slot) = front.and_then(|front| front.slot.as_ref()) else { return false };
        slot.leave(message); // Before the line is let go: the front may change.
        true
    }

    /// The lock may be free: who asks for it asks again.
    pub(crate) fn freed(&self, name: &Name) {
        if let Some(slot) = self.lock().busy.get(name).and_then(|line| line.front.slot.as_ref()) {
            slot.leave(|inbox| inbox.ask = true);
        }
    }

    /// Somebody outside waits for what the front asks for or holds; false when that attempt is not
    /// at the front.
    pub(crate) fn wanted(&self, name: &Name, attempt: AttemptId, now: Now) -> bool {
        let mut lines = self.lock();
        let line = lines.line(name).filter(|line| line.front.attempt == Some(attempt));
        let Some(line) = line else { return false };
        line.want(Some(now.steady_ns));
        true
    }

    /// The connection to the engine is broken: who asks begins to lose patience.
    pub(crate) fn broken(&self, now: Now) {
        for slot in self.lock().busy.values().filter_map(|line| line.front.slot.as_ref()) {
            slot.leave(|inbox| inbox.broken = Some(now));
        }
    }

    /// Messages may have been missed: who asks asks again, who holds may be waited for.
    pub(crate) fn reset(&self, now: Now) {
        let mut lines = self.lock();
        let quiet: Vec<ByName> = lines.quiet.drain().collect();
        quiet.into_iter().for_each(|ByName(hold)| lines.rouse(&hold));
        give_places_back(&mut lines.quiet);
        for line in lines.busy.values_mut() {
            match &line.front.slot {
                Some(slot) => slot.leave(|inbox| inbox.ask = true),
                None => line.want(Some(now.steady_ns)),
            }
        }
    }

    /// Everybody looks up: the client has been closed.
    pub(crate) fn ring_all(&self) {
        for line in self.lock().busy.values() {
            let behind = line.crowd.iter().flat_map(|crowd| crowd.behind.values());
            behind.chain(&line.front.slot).for_each(|slot| slot.bell.notify_one());
        }
    }

    /// How many wait or ask, and in how many lines somebody does.
    pub(crate) fn count(&self) -> (usize, usize) {
        let lines = self.lock();
        let behind = |line: &Line| line.crowd.as_ref().map_or(0, |crowd| crowd.behind.len());
        let waiting = |line: &Line| behind(line) + usize::from(line.front.slot.is_some());
        lines
            .busy
            .values()
            .map(waiting)
            .fold((0, 0), |(all, lines), waiting| (all + waiting, lines + usize::from(waiting > 0)))
    }
}

impl Table {
    /// The line of a name; a quiet one is busy from now on.
    fn line(&mut self, name: &Name) -> Option<&mut Line> {
        if let Some(ByName(hold)) = self.quiet.take(name) {
            self.rouse(&hold);
        }
        self.busy.get_mut(name)
    }

    fn rouse(&mut self, hold: &Hold) {
        self.busy.insert(hold.name.clone(), Line::led_by(Some(hold.attempt), None));
    }
}

impl Line {
    fn led_by(attempt: Option<AttemptId>, slot: Option<Arc<Slot>>) -> Self {
        Self { front: Front { attempt, slot }, crowd: None }
    }

    fn crowd(&mut self) -> &mut Crowd {
        self.crowd.get_or_insert_default()
    }

    /// Somebody outside has been waiting since then, or since it was heard of before.
    fn want(&mut self, since_ns: Option<u64>) {
        if let Some(since_ns) = since_ns {
            self.crowd().wanted_ns.get_or_insert(since_ns);
        }
    }
}

impl Slot {
    pub(crate) fn new(wish: Wish) -> Self {
        Self { bell: Notify::new(), inbox: Mutex::default(), wish }
    }

    fn leave(&self, message: impl FnOnce(&mut Inbox)) {
        message(&mut self.inbox());
        self.bell.notify_one();
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pursuit {
    /// Takes note of an answer to the exchange.
    pub(crate) fn hear(&mut self, told: &Told) {
        self.in_exchange = false;
        self.silence = None;
        self.unanswered |= told.again;
        self.ask_at = None; // If that was a refusal, whoever inherits this asks for itself.
    }

    /// Since when nothing is heard: since this moment, unless it was so before.
    pub(crate) fn silent_since(&mut self, now: Now) -> &mut Silence {
        self.silence.get_or_insert(Silence { since: now, error: None })
    }

    /// Some ask may arrive after this attempt has been ended.
    pub(crate) fn is_suspect(&self) -> bool {
        self.unanswered || self.in_exchange
    }
}

impl Wish {
    /// True when an attempt for one wish can be used for the other.
    pub(crate) fn is_served_by(&self, other: &Self) -> bool {
        self.terms.ttl == other.terms.ttl
            && self.terms.session == other.terms.session
            && self.fair == other.fair
            && self.origin == other.origin
    }
}
