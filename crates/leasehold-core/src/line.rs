//! Who of this process wants a lock: one asks the engine or holds, the others wait behind it in
//! memory, in order of arrival.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::{AttemptId, Deadline, Now, Terms};
use tokio::sync::Notify;

use crate::backend::{Answer, Ask, Grant, Origin};
use crate::hold::Hold;
use crate::shared::give_room_back;
use crate::{Error, Name, Result};

/// The lines of a client, one per name, that exist only while somebody is in them.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<HashMap<Name, Line, RandomState>>);

#[derive(Debug)]
struct Line {
    front: Front,
    /// Those behind it by the number of their arrival.
    behind: BTreeMap<u64, Arc<Slot>>,
    arrivals: u64,
}

/// Who asks the engine, or holds what may be passed on.
#[derive(Debug)]
struct Front {
    /// For which the engine is asked; `None` for one that has not asked yet.
    attempt: Option<AttemptId>,
    /// Where it hears from the engine and from who was at the front; `None` once it holds.
    slot: Option<Arc<Slot>>,
    /// Steady time since when somebody outside this process has been known to wait.
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
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Line, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the line; `None` at the front, where it is to ask with `attempt`, else the number of
    /// the arrival.
    pub(crate) fn enter(&self, name: &Name, attempt: AttemptId, slot: &Arc<Slot>) -> Option<u64> {
        let mut lines = self.lock();
        let Some(line) = lines.get_mut(name) else {
            lines.insert(name.clone(), Line::led_by(Some(attempt), Some(slot.clone())));
            return None;
        };
        line.arrivals += 1;
        line.behind.insert(line.arrivals, slot.clone());
        Some(line.arrivals)
    }

    /// Leaves the line; false when it has been called to the front already, where its turn is to
    /// be found in its inbox.
    pub(crate) fn leave(&self, name: &Name, number: u64) -> bool {
        let mut lines = self.lock();
        lines.get_mut(name).is_some_and(|line| line.behind.remove(&number).is_some())
    }

    /// The front asks with another attempt.
    pub(crate) fn ask(&self, name: &Name, attempt: AttemptId) {
        if let Some(line) = self.lock().get_mut(name) {
            line.front.attempt = Some(attempt);
        }
    }

    /// The front holds; somebody outside has been waiting since `wanted_ns`, or since it was heard
    /// of before. A lease that was acquired past the line leads it only if there is none.
    pub(crate) fn hold(&self, name: &Name, attempt: AttemptId, wanted_ns: Option<u64>) {
        let mut lines = self.lock();
        match lines.get_mut(name) {
            Some(line) if line.front.attempt == Some(attempt) => {
                line.front.slot = None;
                line.front.wanted_ns = line.front.wanted_ns.or(wanted_ns);
            }
            Some(_) => {}
            None => {
                let mut line = Line::led_by(Some(attempt), None);
                line.front.wanted_ns = wanted_ns;
                lines.insert(name.clone(), line);
            }
        }
    }

    /// True while a lease of this client leads the line.
    pub(crate) fn holder(&self, name: &Name) -> Option<AttemptId> {
        self.lock().get(name).filter(|line| line.front.slot.is_none())?.front.attempt
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
        let line = lines.get_mut(name).filter(|line| goes(&line.front))?;
        let Some((_, slot)) = line.behind.pop_first() else {
            lines.remove(name);
            give_room_back(&mut lines);
            return None;
        };
        let (turn, besides) = turn(&slot.wish, line.front.wanted_ns);
        line.front.attempt = match &turn {
            Turn::Ask(_) => None,
            Turn::Attempt(pursuit) => Some(pursuit.ask.attempt),
            Turn::Lease(hold) => Some(hold.attempt),
        };
        if !matches!(turn, Turn::Lease(_)) {
            line.front.wanted_ns = None;
        }
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
        let front = lines.get(name).map(|line| &line.front);
        let front = front.filter(|front| front.attempt == Some(attempt));
        let Some(slot) = front.and_then(|front| front.slot.as_ref()) else { return false };
        slot.leave(message); // Before the line is let go: the front may change.
        true
    }

    /// The lock may be free: who asks for it asks again.
    pub(crate) fn freed(&self, name: &Name) {
        if let Some(slot) = self.lock().get(name).and_then(|line| line.front.slot.as_ref()) {
            slot.leave(|inbox| inbox.ask = true);
        }
    }

    /// Somebody outside waits for what the front asks for or holds; false when that attempt is not
    /// at the front.
    pub(crate) fn wanted(&self, name: &Name, attempt: AttemptId, now: Now) -> bool {
        let mut lines = self.lock();
        let front = lines.get_mut(name).map(|line| &mut line.front);
        let Some(front) = front.filter(|front| front.attempt == Some(attempt)) else {
            return false;
        };
        front.wanted_ns.get_or_insert(now.steady_ns);
        true
    }

    /// The connection to the engine is broken: who asks begins to lose patience.
    pub(crate) fn broken(&self, now: Now) {
        for slot in self.lock().values().filter_map(|line| line.front.slot.as_ref()) {
            slot.leave(|inbox| inbox.broken = Some(now));
        }
    }

    /// Messages may have been missed: who asks asks again, who holds may be waited for.
    pub(crate) fn reset(&self, now: Now) {
        for line in self.lock().values_mut() {
            match &line.front.slot {
                Some(slot) => slot.leave(|inbox| inbox.ask = true),
                None => drop(line.front.wanted_ns.get_or_insert(now.steady_ns)),
            }
        }
    }

    /// Everybody looks up: the client has been closed.
    pub(crate) fn ring_all(&self) {
        for line in self.lock().values() {
            line.behind.values().chain(&line.front.slot).for_each(|slot| slot.bell.notify_one());
        }
    }

    /// How many wait or ask, and in how many lines somebody does.
    pub(crate) fn count(&self) -> (usize, usize) {
        let lines = self.lock();
        let waiting = |line: &Line| line.behind.len() + usize::from(line.front.slot.is_some());
        lines
            .values()
            .map(waiting)
            .fold((0, 0), |(all, lines), waiting| (all + waiting, lines + usize::from(waiting > 0)))
    }
}

impl Line {
    fn led_by(attempt: Option<AttemptId>, slot: Option<Arc<Slot>>) -> Self {
        let front = Front { attempt, slot, wanted_ns: None };
        Self { front, behind: BTreeMap::new(), arrivals: 0 }
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
