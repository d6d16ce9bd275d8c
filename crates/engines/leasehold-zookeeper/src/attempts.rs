//! The state of each attempt of this process. Acquire and release synchronize only here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, EndedAttempts, Mode, ReleaseRequest, Verdict};
use leasehold_core::{AttemptId, Deadline, Name, Now, Token};
use tokio::task::AbortHandle;

/// How many more times to search for the node of a creation that got no answer.
const SEARCHES: u32 = 3;

/// All attempts of a backend.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    known: HashMap<AttemptId, Entry>,
    /// When each lease expires without renewal.
    ends: BTreeSet<(u64, AttemptId)>,
    /// The attempts whose nodes must still be removed at the server, and since when.
    left: BTreeMap<AttemptId, Now>,
    /// The attempts of which a creation may still arrive at the server.
    late: BTreeMap<AttemptId, Late>,
    over: EndedAttempts,
    /// The number of the last watch.
    watches: u64,
    /// The tasks that look for writers behind a lease to read.
    looks: HashMap<AttemptId, Watch>,
}

/// Where the nodes of attempts queue: below the node of a lock, or that of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    pub(crate) name: Name,
    /// They ask for permits of a semaphore.
    pub(crate) permits: bool,
}

impl Line {
    pub(crate) fn of(request: &AcquireRequest) -> Self {
        Self { name: request.name.clone(), permits: request.mode == Mode::Permit }
    }
}

#[derive(Debug)]
struct Entry {
    line: Line,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The attempt asks or waits.
    Open(Open),
    Held(Lease),
    /// The attempt has ended; what it may have left at the server.
    Over(Verdict, Option<Left>),
}

/// An attempt that is not known to hold its lock.
#[derive(Debug, Default)]
struct Open {
    node: Option<OwnNode>,
    /// A creation was sent and has not been answered.
    unanswered: bool,
    /// The watch on the predecessor's node.
    watch: Option<Watch>,
}

/// A task that waits for a watch to fire; it is aborted when no attempt needs it.
#[derive(Debug)]
struct Watch(u64, AbortHandle);

/// An attempt's node.
#[derive(Clone, Debug)]
pub(crate) struct OwnNode {
    /// Its whole path.
    pub(crate) path: String,
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// The session that it belongs to.
    pub(crate) session: u64,
}

/// A lock that is held.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) node: OwnNode,
    pub(crate) token: Token,
    /// Until when the holder may consider the lease valid.
    pub(crate) until: Deadline,
    /// When the lease expires without renewal.
    pub(crate) ends: Deadline,
    /// The slots of a permit; none of a lock.
    pub(crate) slots: Vec<u32>,
}

/// What an ended attempt may have left at the server.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    pub(crate) path: Option<String>,
    /// Also search for nodes with the attempt's id.
    pub(crate) search: bool,
    /// A removal was sent and has not been answered.
    pub(crate) tried: bool,
}

/// A creation without an answer whose node was not found.
#[derive(Debug)]
struct Late {
    line: Line,
    /// The time of the last search.
    since: Now,
    searches: u32,
}

/// The state that an acquire finds.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The attempt is new.
    New,
    /// The attempt may have an unknown node.
    Search,
    /// The attempt has a node.
    Queued(OwnNode),
    /// The attempt waits with this node, and its watch will notify it.
    Watching(OwnNode),
    Held(Lease),
    Ended,
}

/// The state that a conversion finds.
#[derive(Debug)]
pub(crate) enum Conversion {
    /// Nothing was sent yet; with the lease to convert.
    New(Lease),
    /// A request was sent, and its answer is not known.
    Search(Lease),
    /// It has succeeded.
    Done(Lease),
    /// It has failed, or was refused; with the lease that is still held.
    Over(Option<Lease>),
}

impl Attempts {
    /// Records that an acquire of an attempt begins in this session.
    pub(crate) fn begin(&mut self, attempt: AttemptId, line: &Line, session: u64) -> Begun {
        let new = || Entry { line: line.clone(), state: State::Open(Open::default()) };
        match &mut self.known.entry(attempt).or_insert_with(new).state {
            State::Over(..) => Begun::Ended,
            // The session has ended, but the loss of its leases has not been reported yet.
            State::Held(lease) if lease.node.session != session => Begun::Ended,
            State::Held(lease) => Begun::Held(lease.clone()),
            State::Open(open) => {
                if open.node.as_ref().is_some_and(|node| node.session != session) {
                    // The session has ended here; the server may notice that later.
                    *open = Open { unanswered: true, ..Open::default() };
                }
                match &open.node {
                    Some(node) if open.watch.is_some() => Begun::Watching(node.clone()),
                    Some(node) => Begun::Queued(node.clone()),
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

    /// Records that the attempt has no node and no creation in flight.
    pub(crate) fn unseat(&mut self, attempt: AttemptId) {
        if let Some(open) = self.open(attempt) {
            *open = Open::default();
        }
    }

    /// Records that the node of a creation without an answer was not found. The attempt creates
    /// another node, and the first creation may still arrive: a server may still read the rest of
    /// the old connection after the session has moved to a new one.
    pub(crate) fn repeat(&mut self, now: Now, attempt: AttemptId) {
        self.unseat(attempt);
        self.expect_late(now, attempt);
    }

    fn expect_late(&mut self, now: Now, attempt: AttemptId) {
        let Some(entry) = self.known.get(&attempt) else { return };
        let late = Late { line: entry.line.clone(), since: now, searches: 0 };
        self.late.insert(attempt, late);
    }

    /// Sets the attempt's node; false if the attempt has ended meanwhile, and its node will be removed.
    pub(crate) fn set_node(&mut self, attempt: AttemptId, node: OwnNode) -> bool {
        let Some(open) = self.open(attempt) else { return false };
        *open = Open { node: Some(node), ..Open::default() };
        true
    }

    /// Removes an attempt that ended without a lease.
    pub(crate) fn forget(&mut self, attempt: AttemptId) {
        if self.open(attempt).is_some() {
            self.known.remove(&attempt);
        }
    }

    /// Sets the watch on the node before an attempt's. False if the attempt has ended meanwhile.
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

    /// Handles a fired watch; the attempt must be notified if it was its latest one.
    pub(crate) fn fire(&mut self, attempt: AttemptId, number: u64) -> Option<Name> {
        let open = self.open(attempt)?;
        open.watch.take_if(|watch| watch.0 == number)?;
        self.known.get(&attempt).map(|entry| entry.line.name.clone())
    }

    /// Removes all watches, so that every waiter reads the queue again.
    pub(crate) fn disarm_all(&mut self) {
        for entry in self.known.values_mut() {
            if let State::Open(open) = &mut entry.state {
                open.watch = None;
            }
        }
    }

    /// Records that the attempt holds its lock; false if it has ended meanwhile.
    pub(crate) fn hold(&mut self, attempt: AttemptId, lease: Lease) -> bool {
        let Some(entry) = self.known.get_mut(&attempt) else { return false };
        if !matches!(entry.state, State::Open(_)) {
            return matches!(entry.state, State::Held(_));
        }
        self.ends.insert((lease.ends.steady_ns(), attempt));
        entry.state = State::Held(lease);
        true
    }

    /// Keeps the task that looks for writers behind a lease as long as the lease is held.
    pub(crate) fn look_for_writers(
        &mut self,
        attempt: AttemptId,
        start: impl FnOnce() -> AbortHandle,
    ) {
        if self.known.get(&attempt).is_some_and(|entry| matches!(entry.state, State::Held(_))) {
            self.looks.insert(attempt, Watch(0, start()));
        }
    }

    /// Returns the lease of an attempt with this token, of any session.
    pub(crate) fn lease(&self, attempt: AttemptId, token: Token) -> Option<&Lease> {
        match &self.known.get(&attempt)?.state {
            State::Held(lease) if lease.token == token => Some(lease),
            _ => None,
        }
    }

    /// Extends a lease; false if it has ended.
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

    /// Marks a held lease as lost: its node must be removed if it still exists.
    pub(crate) fn lose(&mut self, now: Now, attempt: AttemptId) -> bool {
        let held = self.known.get(&attempt).is_some_and(|e| matches!(e.state, State::Held(_)));
        if held {
            self.close(now, attempt, Verdict::Lost);
        }
        held
    }

    /// Marks the leases of an ended session as lost; returns their attempts.
    pub(crate) fn lose_session(&mut self, now: Now, session: u64) -> Vec<AttemptId> {
        let held = self.known.iter().filter_map(|(attempt, entry)| match &entry.state {
            State::Held(lease) if lease.node.session == session => Some(*attempt),
            _ => None,
        });
        let lost: Vec<AttemptId> = held.collect();
        lost.into_iter().filter(|attempt| self.lose(now, *attempt)).collect()
    }

    /// Ends an attempt; returns the verdict, and whether nodes must still be removed.
    pub(crate) fn end(&mut self, now: Now, release: &ReleaseRequest) -> (Verdict, bool) {
        let permits = release.mode == Mode::Permit;
        let line = Line { name: release.name.clone(), permits };
        let unknown = || Entry { line, state: State::Open(Open::default()) };
        if !self.known.contains_key(&release.attempt) && release.base.is_some() {
            return (Verdict::Unknown, false);
        }
        match &self.known.entry(release.attempt).or_insert_with(unknown).state {
            State::Over(verdict, left) => (*verdict, left.is_some()),
            State::Open(_) => self.close(now, release.attempt, Verdict::Gone),
            // The lease has expired, but the janitor has not run yet.
            State::Held(lease) if lease.ends.has_passed(now) => {
                self.close(now, release.attempt, Verdict::Lost)
            }
            State::Held(_) => self.close(now, release.attempt, Verdict::Released),
        }
    }

    fn close(&mut self, now: Now, attempt: AttemptId, verdict: Verdict) -> (Verdict, bool) {
        let Some(entry) = self.known.get_mut(&attempt) else { return (verdict, false) };
        let mut unanswered = false;
        self.looks.remove(&attempt);
        let left = match &entry.state {
            State::Open(open) => {
                let path = open.node.as_ref().map(|node| node.path.clone());
                let search = open.unanswered;
                unanswered = search;
                (path.is_some() || search).then_some(Left { path, search, tried: false })
            }
            State::Held(lease) => {
                self.ends.remove(&(lease.ends.steady_ns(), attempt));
                Some(Left { path: Some(lease.node.path.clone()), search: false, tried: false })
            }
            State::Over(..) => return (verdict, false),
        };
        let clear = left.is_some();
        entry.state = State::Over(verdict, left);
        if clear {
            self.left.insert(attempt, now);
        }
        if unanswered {
            self.expect_late(now, attempt);
        }
        self.over.push(now, attempt);
        self.sweep(now);
        (verdict, clear)
    }

    /// Returns what an ended attempt has left, and records that its removal is sent now.
    pub(crate) fn clear(&mut self, attempt: AttemptId) -> Option<(Line, Left)> {
        let entry = self.known.get_mut(&attempt)?;
        let State::Over(_, Some(left)) = &mut entry.state else { return None };
        let before = left.clone();
        left.tried = true;
        Some((entry.line.clone(), before))
    }

    /// Records that nothing is left of an ended attempt. If a release found no node, its lease was
    /// already lost.
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

    /// Returns the expired leases.
    pub(crate) fn due(&self, now: Now) -> Vec<AttemptId> {
        let due = self.ends.iter().take_while(|(ends, _)| *ends <= now.steady_ns);
        due.map(|(_, attempt)| *attempt).collect()
    }

    /// Returns when the next lease expires, by the steady clock.
    pub(crate) fn next_end(&self) -> Option<u64> {
        self.ends.first().map(|(ends, _)| *ends)
    }

    /// Returns the attempts with removals older than `age`, and restarts their age.
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

    /// Returns true if nodes must be removed or searched for.
    pub(crate) fn has_left(&self) -> bool {
        !self.left.is_empty() || !self.late.is_empty()
    }

    /// Returns, by queue, the attempts whose last search for late nodes is older than `age`, and
    /// restarts their age.
    pub(crate) fn late(&mut self, now: Now, age: Duration) -> HashMap<Line, Vec<AttemptId>> {
        let age = age.as_nanos() as u64;
        let old = |late: &Late| now.steady_ns.saturating_sub(late.since.steady_ns) >= age;
        let mut due: HashMap<Line, Vec<AttemptId>> = HashMap::new();
        for (attempt, late) in self.late.iter_mut().filter(|(_, late)| old(late)) {
            late.since = now;
            due.entry(late.line.clone()).or_default().push(*attempt);
        }
        due
    }

    /// Returns which of an attempt's `nodes` to remove: all except the one that the attempt uses.
    /// `None` if that one is not known yet: an attempt without a node may still find any of them.
    pub(crate) fn superfluous(
        &self,
        attempt: AttemptId,
        nodes: Vec<String>,
    ) -> Option<Vec<String>> {
        let own = match self.known.get(&attempt).map(|entry| &entry.state) {
            Some(State::Open(open)) => Some(&open.node.as_ref()?.path),
            Some(State::Held(lease)) => Some(&lease.node.path),
            Some(State::Over(..)) | None => None,
        };
        Some(nodes.into_iter().filter(|node| Some(node) != own).collect())
    }

    /// Counts a search for late nodes after which none is left.
    pub(crate) fn searched(&mut self, attempt: AttemptId) {
        if let Some(late) = self.late.get_mut(&attempt) {
            late.searches += 1;
            if late.searches == SEARCHES {
                self.late.remove(&attempt);
            }
        }
    }

    /// Ends the search for late nodes of an attempt.
    pub(crate) fn stop_search(&mut self, attempt: AttemptId) {
        self.late.remove(&attempt);
    }

    /// Returns true if a creation of the attempt may still arrive.
    pub(crate) fn expects_late(&self, attempt: AttemptId) -> bool {
        self.late.contains_key(&attempt)
    }

    /// Begins to turn the lease of one attempt into a lease of another one.
    pub(crate) fn convert(
        &mut self,
        (from, token): (AttemptId, Option<Token>),
        next: AttemptId,
        name: &Name,
        session: u64,
    ) -> Conversion {
        let held = token.and_then(|token| self.lease(from, token)).cloned();
        let held = held.filter(|lease| lease.node.session == session);
        match self.known.get(&next).map(|entry| &entry.state) {
            Some(State::Held(lease)) if lease.node.session == session => {
                return Conversion::Done(lease.clone());
            }
            Some(State::Held(_) | State::Over(..)) => return Conversion::Over(held),
            Some(State::Open(open)) if open.unanswered => {
                return held.map_or(Conversion::Over(None), Conversion::Search);
            }
            Some(State::Open(_)) | None => {}
        }
        let Some(held) = held else { return Conversion::Over(None) };
        let line = Line { name: name.clone(), permits: false };
        let new = || Entry { line, state: State::Open(Open::default()) };
        self.known.entry(next).or_insert_with(new);
        Conversion::New(held)
    }

    /// Records that the lease of `from` is that of `next` now. Returns false if either has ended
    /// meanwhile: the node of `next` is removed.
    pub(crate) fn converted(
        &mut self,
        now: Now,
        from: AttemptId,
        next: AttemptId,
        lease: Lease,
    ) -> bool {
        let held = match self.known.get_mut(&from) {
            Some(entry) => match &entry.state {
                State::Held(lease) => {
                    self.ends.remove(&(lease.ends.steady_ns(), from));
                    entry.state = State::Over(Verdict::Released, None);
                    true
                }
                _ => false,
            },
            None => false,
        };
        if held {
            self.looks.remove(&from);
            self.over.push(now, from);
        } else if self.set_node(next, lease.node.clone()) {
            self.close(now, next, Verdict::Gone);
        }
        held && self.hold(next, lease)
    }

    /// Ends an attempt that a conversion was refused for: a repeated request is refused too.
    pub(crate) fn refuse(&mut self, now: Now, next: AttemptId) {
        self.unseat(next);
        self.close(now, next, Verdict::Gone);
    }

    /// Ends an attempt whose conversion has failed; a request without an answer is searched for.
    pub(crate) fn give_up(&mut self, now: Now, next: AttemptId) {
        self.close(now, next, Verdict::Gone);
    }

    fn open(&mut self, attempt: AttemptId) -> Option<&mut Open> {
        match &mut self.known.get_mut(&attempt)?.state {
            State::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Forgets attempts that ended long ago, except those with nodes left at the server.
    fn sweep(&mut self, now: Now) {
        while let Some(attempt) = self.over.pop_due(now) {
            if self.left.contains_key(&attempt) {
                self.over.push(now, attempt);
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
#[path = "attempts_tests.rs"]
mod tests;
