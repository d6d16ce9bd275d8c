//! What became of each attempt of this process: the one place where an acquire meets its release.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use leasehold_core::backend::{End, Verdict};
use leasehold_core::{AttemptId, Deadline, Name, Now, Token};
use tokio::task::AbortHandle;

/// How long the end of an attempt is remembered, for an acquire that arrives late and for a
/// release that is repeated; and how many ends are.
const REMEMBER: Duration = Duration::from_secs(300);
const REMEMBER_COUNT: usize = 16_384;

/// All attempts of a backend.
#[derive(Debug, Default)]
pub(crate) struct Book {
    known: HashMap<AttemptId, Entry>,
    /// When the leases end that nobody renews.
    ends: BTreeSet<(u64, AttemptId)>,
    /// What is still to be removed at the server, and since when.
    left: BTreeMap<AttemptId, Now>,
    /// Those that are over, oldest first.
    over: VecDeque<(Deadline, AttemptId)>,
    /// The last watch that was given a number.
    watches: u64,
}

#[derive(Debug)]
struct Entry {
    name: Name,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It asks, or waits.
    Open(Open),
    Held(Lease),
    /// It has ended, and this may be left of it at the server.
    Over(Verdict, Option<Left>),
}

/// An attempt that does not hold, as far as we know.
#[derive(Debug, Default)]
struct Open {
    seat: Option<Seated>,
    /// A creation was sent whose answer we have not heard.
    unanswered: bool,
    /// The watch on the one before it.
    watch: Option<Watch>,
}

/// The task that waits for a watch to fire; it ends when nobody cares any more.
#[derive(Debug)]
struct Watch(u64, AbortHandle);

/// An attempt's node.
#[derive(Clone, Debug)]
pub(crate) struct Seated {
    /// Its whole path.
    pub(crate) path: String,
    /// The transaction that made it.
    pub(crate) czxid: i64,
    /// The session that it belongs to.
    pub(crate) session: u64,
}

/// A lock that is held.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) seat: Seated,
    pub(crate) token: Token,
    /// Until when its holder may rely on it.
    pub(crate) until: Deadline,
    /// When it is over for everybody, if nobody renews it.
    pub(crate) ends: Deadline,
}

/// What an ended attempt may have left at the server.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    pub(crate) path: Option<String>,
    /// Look for nodes with the attempt's id, too.
    pub(crate) search: bool,
    /// A removal was sent, and not answered.
    pub(crate) tried: bool,
}

/// What an ask finds.
#[derive(Debug)]
pub(crate) enum Begun {
    /// Nothing is known of it.
    New,
    /// It may have a node that we do not know of.
    Search,
    /// It has a node.
    Seated(Seated),
    /// It waits, and will be told.
    Watching,
    Held(Lease),
    Ended,
}

impl Book {
    /// An ask of an attempt begins, in this session.
    pub(crate) fn begin(&mut self, attempt: AttemptId, name: &Name, session: u64) -> Begun {
        let new = || Entry { name: name.clone(), state: State::Open(Open::default()) };
        match &mut self.known.entry(attempt).or_insert_with(new).state {
            State::Over(..) => Begun::Ended,
            // A session that has ended is noticed here before its leases are told that they are lost.
            State::Held(lease) if lease.seat.session != session => Begun::Ended,
            State::Held(lease) => Begun::Held(lease.clone()),
            State::Open(open) => {
                if open.seat.as_ref().is_some_and(|seat| seat.session != session) {
                    // Its session has ended, and the server may take a while to notice.
                    *open = Open { unanswered: true, ..Open::default() };
                }
                match &open.seat {
                    Some(_) if open.watch.is_some() => Begun::Watching,
                    Some(seat) => Begun::Seated(seat.clone()),
                    None if open.unanswered => Begun::Search,
                    None => Begun::New,
                }
            }
        }
    }

    /// Runs `send`, which creates the attempt's node, unless the attempt has ended meanwhile.
    pub(crate) fn create<T>(&mut self, attempt: AttemptId, send: impl FnOnce() -> T) -> Option<T> {
        self.open(attempt)?.unanswered = true;
        Some(send())
    }

    /// No creation of this attempt is on its way, and it has no node.
    pub(crate) fn unseat(&mut self, attempt: AttemptId) {
        if let Some(open) = self.open(attempt) {
            *open = Open::default();
        }
    }

    /// Its node is this; false if the attempt has ended meanwhile, and so will the node.
    pub(crate) fn seat(&mut self, attempt: AttemptId, seat: Seated) -> bool {
        let Some(open) = self.open(attempt) else { return false };
        *open = Open { seat: Some(seat), ..Open::default() };
        true
    }

    /// Nothing is left of an attempt that has gone without a lease.
    pub(crate) fn forget(&mut self, attempt: AttemptId) {
        if self.open(attempt).is_some() {
            self.known.remove(&attempt);
        }
    }

    /// Notes who watches the node before an attempt's. False if it has ended meanwhile.
    pub(crate) fn arm(
        &mut self,
        attempt: AttemptId,
        start: impl FnOnce(u64) -> AbortHandle,
    ) -> bool {
        let number = self.watches + 1;
        let Some(open) = self.open(attempt) else { return false };
        open.watch = Some(Watch(number, start(number)));
        self.watches = number;
        true
    }

    /// A watch has fired: the attempt is to be told if it was its last one.
    pub(crate) fn fire(&mut self, attempt: AttemptId, number: u64) -> Option<Name> {
        let open = self.open(attempt)?;
        open.watch.take_if(|watch| watch.0 == number)?;
        self.known.get(&attempt).map(|entry| entry.name.clone())
    }

    /// Whatever was watched is to be looked at anew.
    pub(crate) fn disarm_all(&mut self) {
        for entry in self.known.values_mut() {
            if let State::Open(open) = &mut entry.state {
                open.watch = None;
            }
        }
    }

    /// The attempt holds; false if it has ended meanwhile.
    pub(crate) fn hold(&mut self, attempt: AttemptId, lease: Lease) -> bool {
        let Some(entry) = self.known.get_mut(&attempt) else { return false };
        if !matches!(entry.state, State::Open(_)) {
            return matches!(entry.state, State::Held(_));
        }
        self.ends.insert((lease.ends.steady_ns(), attempt));
        entry.state = State::Held(lease);
        true
    }

    /// The lease of an attempt with this token, whatever session it belongs to.
    pub(crate) fn lease(&self, attempt: AttemptId, token: Token) -> Option<&Lease> {
        match &self.known.get(&attempt)?.state {
            State::Held(lease) if lease.token == token => Some(lease),
            _ => None,
        }
    }

    /// Moves the end of a lease; false if it is over.
    pub(crate) fn renew(&mut self, attempt: AttemptId, until: Deadline, ends: Deadline) -> bool {
        let Some(Entry { state: State::Held(lease), .. }) = self.known.get_mut(&attempt) else {
            return false;
        };
        self.ends.remove(&(lease.ends.steady_ns(), attempt));
        lease.until = lease.until.max(until);
        lease.ends = lease.ends.max(ends);
        self.ends.insert((lease.ends.steady_ns(), attempt));
        true
    }

    /// A held lease is lost: its node is to be removed if it is still there.
    pub(crate) fn lose(&mut self, now: Now, attempt: AttemptId) -> bool {
        let held = self.known.get(&attempt).is_some_and(|e| matches!(e.state, State::Held(_)));
        if held {
            self.close(now, attempt, Verdict::Lost);
        }
        held
    }

    /// The leases of a session that has ended are lost: whose.
    pub(crate) fn lose_session(&mut self, now: Now, session: u64) -> Vec<AttemptId> {
        let held = self.known.iter().filter_map(|(attempt, entry)| match &entry.state {
            State::Held(lease) if lease.seat.session == session => Some(*attempt),
            _ => None,
        });
        let lost: Vec<AttemptId> = held.collect();
        lost.into_iter().filter(|attempt| self.lose(now, *attempt)).collect()
    }

    /// An attempt is ended; the verdict, and whether something is still to be removed.
    pub(crate) fn end(&mut self, now: Now, end: &End) -> (Verdict, bool) {
        let unknown = || Entry { name: end.name.clone(), state: State::Open(Open::default()) };
        if !self.known.contains_key(&end.attempt) && end.base.is_some() {
            return (Verdict::Unknown, false);
        }
        match &self.known.entry(end.attempt).or_insert_with(unknown).state {
            State::Over(verdict, left) => (*verdict, left.is_some()),
            State::Open(_) => self.close(now, end.attempt, Verdict::Gone),
            // Its end has come, and the janitor has not.
            State::Held(lease) if lease.ends.has_passed(now) => {
                self.close(now, end.attempt, Verdict::Lost)
            }
            State::Held(_) => self.close(now, end.attempt, Verdict::Released),
        }
    }

    fn close(&mut self, now: Now, attempt: AttemptId, verdict: Verdict) -> (Verdict, bool) {
        let Some(entry) = self.known.get_mut(&attempt) else { return (verdict, false) };
        let left = match &entry.state {
            State::Open(open) => {
                let path = open.seat.as_ref().map(|seat| seat.path.clone());
                let search = open.unanswered;
                (path.is_some() || search).then_some(Left { path, search, tried: false })
            }
            State::Held(lease) => {
                self.ends.remove(&(lease.ends.steady_ns(), attempt));
                Some(Left { path: Some(lease.seat.path.clone()), search: false, tried: false })
            }
            State::Over(..) => return (verdict, false),
        };
        let clear = left.is_some();
        entry.state = State::Over(verdict, left);
        if clear {
            self.left.insert(attempt, now);
        }
        self.over.push_back((Deadline::after(now, REMEMBER), attempt));
        self.sweep(now);
        (verdict, clear)
    }

    /// What an ended attempt has left; a removal of it is sent now.
    pub(crate) fn clear(&mut self, attempt: AttemptId) -> Option<(Name, Left)> {
        let entry = self.known.get_mut(&attempt)?;
        let State::Over(_, Some(left)) = &mut entry.state else { return None };
        let before = left.clone();
        left.tried = true;
        Some((entry.name.clone(), before))
    }

    /// Nothing is left of an ended attempt; a release of it that found nothing had lost its lease.
    pub(crate) fn cleared(&mut self, attempt: AttemptId, found: bool, tried: bool) -> Verdict {
        self.left.remove(&attempt);
        let Some(Entry { state: State::Over(verdict, left), .. }) = self.known.get_mut(&attempt)
        else {
            return Verdict::Unknown;
        };
        if left.take().is_some() && *verdict == Verdict::Released && !found {
            *verdict = if tried { Verdict::Unknown } else { Verdict::Lost };
        }
        *verdict
    }

    /// The leases whose end has come.
    pub(crate) fn due(&self, now: Now) -> Vec<AttemptId> {
        let due = self.ends.iter().take_while(|(ends, _)| *ends <= now.steady_ns);
        due.map(|(_, attempt)| *attempt).collect()
    }

    /// When the next lease ends, by the steady clock.
    pub(crate) fn next_end(&self) -> Option<u64> {
        self.ends.first().map(|(ends, _)| *ends)
    }

    /// What has been left for longer than `age`; it counts as left from now on.
    pub(crate) fn left_behind(&mut self, now: Now, age: Duration) -> Vec<AttemptId> {
        let age = age.as_nanos() as u64;
        let old = |since: &Now| now.steady_ns.saturating_sub(since.steady_ns) >= age;
        let behind = self.left.iter_mut().filter(|(_, since)| old(since));
        behind
            .map(|(attempt, since)| {
                *since = now;
                *attempt
            })
            .collect()
    }

    /// True when something is to be removed.
    pub(crate) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    fn open(&mut self, attempt: AttemptId) -> Option<&mut Open> {
        match &mut self.known.get_mut(&attempt)?.state {
            State::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Forgets what has been over for long. What is left at the server is not forgotten.
    fn sweep(&mut self, now: Now) {
        while let Some((until, attempt)) = self.over.front().copied() {
            if self.over.len() <= REMEMBER_COUNT && !until.has_passed(now) {
                break;
            }
            self.over.pop_front();
            if self.left.contains_key(&attempt) {
                self.over.push_back((Deadline::after(now, REMEMBER), attempt));
                break;
            }
            self.known.remove(&attempt);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.1.abort();
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
