//! A cache in front of a database, step by step: what the server does with entries, fill leases and holds is
//! what the scripts of `leasehold-cache` do (`acquire.lua`, `fill.lua`, `write.lua`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// How long an entry lasts, in milliseconds.
pub(super) const TTL: u64 = 60_000;
/// How long a writer that does not end keeps readers from filling.
const HOLD: u64 = 30_000;
/// How long a reader may take to load, before another one may.
const LEASE: u64 = 10_000;
/// The first token that is shown.
const FIRST_TOKEN: u64 = 7;

/// How a fill is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leases {
    /// It always is.
    None,
    /// No larger token was given since.
    ByOrder,
    /// The lease has the client's own token.
    ByClient,
    /// As in Leasehold: the very lease that this load was given, and no write under way.
    Leasehold,
}

/// One step of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Asks the cache. With a hit it is done.
    Ask,
    /// Reads the row, which takes as long as the step lasts.
    Load,
    /// Puts what was read into the cache, if that is allowed.
    Fill,
    /// Announces a write.
    Begin,
    /// Commits this value.
    Commit(u64),
    /// Its transaction fails.
    Fail,
    /// Removes the entry, and the lease where there are leases.
    Delete,
    /// Puts this value into the cache.
    Set(u64),
    /// Ends an announced write: removes entry and lease, and its hold.
    Committed,
    /// The same with the new value, which is taken if no other write was under way.
    CommittedWith(u64),
    /// The process is gone.
    Die,
    /// The server's data is copied.
    Snapshot,
    /// The server restarts with the copy.
    Restart,
    /// The process removes its own copy of the value.
    Forget,
    /// The process reads the entry in Redis.
    Fetch,
    /// The process keeps what it has read; Leasehold only if nothing was invalidated since.
    Keep,
}

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Reader,
    Writer,
    Server,
}

/// One actor with its steps, each with the time until the next one.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) role: Role,
    /// Counts from 1 among those of its role.
    pub(super) number: usize,
    /// Of which client it is, for tokens by client.
    client: u64,
    key: usize,
    start: u64,
    steps: Vec<(Step, u64)>,
    /// Begins again after so long.
    again: Option<u64>,
    at: usize,
    read: Option<Option<u64>>,
    token: Option<u64>,
    note: u64,
}

impl Actor {
    pub(super) fn new(role: Role, number: usize, start: u64, steps: &[(Step, u64)]) -> Self {
        Self {
            role,
            number,
            client: number as u64,
            key: 0,
            start,
            steps: steps.to_vec(),
            again: None,
            at: 0,
            read: None,
            token: None,
            note: 0,
        }
    }

    pub(super) fn of_key(self, key: usize) -> Self {
        Self { key, ..self }
    }

    pub(super) fn of_client(self, client: u64) -> Self {
        Self { client, ..self }
    }

    /// It begins again so long after it has what it wanted.
    pub(super) fn again(self, pause: u64) -> Self {
        Self { again: Some(pause), ..self }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A hit: the value, or that there is none, and whether the database says the same.
    Hit(Option<u64>, bool),
    /// A miss, with the token of the lease.
    Miss(Option<u64>),
    /// Another load is under way.
    Waits,
    /// A write is under way: it loads, and will fill nothing.
    Past,
    /// It reads the database.
    Loads(Option<u64>),
    Fills(Option<u64>),
    /// What it has read goes to its caller only.
    Refused(Option<u64>),
    Begins,
    Commits(u64),
    Fails,
    Deletes,
    Sets(u64),
    /// The value of a writer was not taken: another write was under way.
    NotTaken(u64),
    Dies,
    Snapshot,
    Restarts,
    Forgets,
    Fetches(Option<u64>),
    Keeps(Option<u64>),
    KeepsNothing,
}

/// What the first key has at a moment: in the cache, in the process and in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) cache: Option<Option<u64>>,
    pub(super) process: Option<u64>,
    pub(super) database: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    value: Option<u64>,
    until: u64,
    run: u32,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    entry: Option<Entry>,
    /// Token, end, and whether it is a writer's.
    lease: Option<(u64, u64, bool)>,
    /// Writers, and until when readers fill nothing because of them.
    holds: BTreeMap<u64, u64>,
    /// The last token given, where they are compared by order.
    last: u64,
}

/// The whole world.
#[derive(Debug)]
pub(super) struct World {
    leases: Leases,
    now: u64,
    end: u64,
    run: u32,
    tokens: u64,
    slots: BTreeMap<usize, Slot>,
    saved: BTreeMap<usize, Slot>,
    rows: BTreeMap<usize, u64>,
    process: Option<u64>,
    /// How often the process was told of a change.
    changes: u64,
    actors: Vec<Actor>,
    waiting: Vec<usize>,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    serial: u64,
    pub(super) told: Vec<(u64, usize, Event)>,
    pub(super) states: Vec<(u64, State)>,
    /// When each load began and ended.
    pub(super) loads: Vec<(usize, u64, u64)>,
}

impl World {
    pub(super) fn new(leases: Leases, end: u64, actors: Vec<Actor>) -> Self {
        let mut world = Self {
            leases,
            now: 0,
            end,
            run: 0,
            tokens: FIRST_TOKEN,
            slots: BTreeMap::new(),
            saved: BTreeMap::new(),
            rows: BTreeMap::new(),
            process: None,
            changes: 0,
            actors,
            waiting: Vec::new(),
            queue: BinaryHeap::new(),
            serial: 0,
            told: Vec::new(),
            states: Vec::new(),
            loads: Vec::new(),
        };
        for actor in 0..world.actors.len() {
            world.at(world.actors[actor].start, actor);
        }
        world
    }

    /// A row of the database.
    pub(super) fn row(&mut self, key: usize, value: u64) {
        self.rows.insert(key, value);
    }

    /// An entry that is there from the beginning, until then.
    pub(super) fn entry(&mut self, key: usize, value: u64, until: u64) {
        let entry = Entry { value: Some(value), until, run: 0 };
        self.slots.entry(key).or_default().entry = Some(entry);
    }

    /// The process has a copy.
    pub(super) fn copy(&mut self, value: u64) {
        self.process = Some(value);
    }

    /// Plays to the end.
    pub(super) fn play(&mut self) {
        self.note_state();
        while let Some(Reverse((time, _, actor))) = self.queue.pop() {
            if time > self.end {
                break;
            }
            self.now = time;
            self.step(actor);
            self.note_state();
        }
        self.now = self.end;
    }

    /// What the first key has at the end.
    pub(super) fn state(&self) -> State {
        State {
            cache: self.slots.get(&0).and_then(|slot| self.served(slot)).map(|entry| entry.value),
            process: self.process,
            database: self.rows.get(&0).copied(),
        }
    }

    pub(super) fn actors(&self) -> &[Actor] {
        &self.actors
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The most loads at the same time.
    pub(super) fn most_loads(&self) -> usize {
        let at = |time| self.loads.iter().filter(|load| load.1 <= time && time < load.2).count();
        self.loads.iter().map(|load| at(load.1)).max().unwrap_or(0)
    }

    fn note_state(&mut self) {
        let state = self.state();
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((self.now, state));
        }
    }

    fn at(&mut self, time: u64, actor: usize) {
        self.serial += 1;
        self.queue.push(Reverse((time, self.serial, actor)));
    }

    fn tell(&mut self, actor: usize, event: Event) {
        self.told.push((self.now, actor, event));
    }

    /// An entry that a reader gets: not one that has ended, and with Leasehold not one of an earlier run.
    fn served(&self, slot: &Slot) -> Option<Entry> {
        let this_run = |entry: &Entry| self.leases != Leases::Leasehold || entry.run == self.run;
        slot.entry.filter(|entry| entry.until > self.now && this_run(entry))
    }

    fn slot(&mut self, actor: usize) -> &mut Slot {
        self.slots.entry(self.actors[actor].key).or_default()
    }

    fn step(&mut self, number: usize) {
        let Some((step, takes)) = self.actors[number].steps.get(self.actors[number].at).copied()
        else {
            return;
        };
        if step == Step::Ask {
            match self.ask(number) {
                Event::Hit(value, same) => {
                    self.tell(number, Event::Hit(value, same));
                    return self.done(number);
                }
                Event::Waits => {
                    self.tell(number, Event::Waits);
                    self.waiting.push(number);
                    return;
                }
                event => self.tell(number, event),
            }
        } else {
            self.act(number, step, takes);
        }
        self.actors[number].at += 1;
        if step == Step::Die {
            return;
        }
        match self.actors[number].at < self.actors[number].steps.len() {
            true => self.at(self.now + takes, number),
            false => self.done(number),
        }
    }

    /// It has what it wanted, and may begin again.
    fn done(&mut self, number: usize) {
        self.actors[number].at = 0;
        if let Some(pause) = self.actors[number].again {
            self.at(self.now + pause, number);
        } else {
            self.actors[number].at = usize::MAX;
        }
    }

    /// `acquire.lua`.
    fn ask(&mut self, number: usize) -> Event {
        let (now, leases) = (self.now, self.leases);
        let row = self.rows.get(&self.actors[number].key).copied();
        let client = self.actors[number].client;
        let fresh = self.tokens;
        let entry = self.slots.get(&self.actors[number].key).and_then(|slot| self.served(slot));
        if let Some(entry) = entry {
            return Event::Hit(entry.value, entry.value == row);
        }
        let slot = self.slot(number);
        slot.holds.retain(|_, until| *until > now);
        slot.lease = slot.lease.filter(|(_, until, _)| *until > now);
        let token = match leases {
            Leases::None => None,
            Leases::ByOrder => {
                slot.last += 1;
                Some(slot.last)
            }
            Leases::ByClient => {
                let token = FIRST_TOKEN - 1 + client;
                Some(slot.lease.get_or_insert((token, now + LEASE, false)).0)
            }
            Leases::Leasehold if !slot.holds.is_empty() => {
                self.actors[number].token = None;
                return Event::Past;
            }
            Leases::Leasehold if slot.lease.is_some() => return Event::Waits,
            Leases::Leasehold => {
                slot.lease = Some((fresh, now + LEASE, false));
                self.tokens += 1;
                Some(fresh)
            }
        };
        self.actors[number].token = token;
        Event::Miss(token)
    }

    fn act(&mut self, number: usize, step: Step, takes: u64) {
        let key = self.actors[number].key;
        match step {
            Step::Ask => {}
            Step::Load => {
                let row = self.rows.get(&key).copied();
                self.actors[number].read = Some(row);
                self.loads.push((number, self.now, self.now + takes));
                self.tell(number, Event::Loads(row));
            }
            Step::Fill => self.fill(number),
            Step::Begin => self.begin(number),
            Step::Commit(value) => {
                self.rows.insert(key, value);
                self.tell(number, Event::Commits(value));
            }
            Step::Fail => self.tell(number, Event::Fails),
            Step::Delete => {
                self.remove(number);
                self.tell(number, Event::Deletes);
            }
            Step::Set(value) => {
                self.put(number, Some(value));
                self.tell(number, Event::Sets(value));
            }
            Step::Committed | Step::CommittedWith(_) => self.end_write(number, step),
            Step::Die => self.tell(number, Event::Dies),
            Step::Snapshot => {
                self.saved = self.slots.clone();
                self.tell(number, Event::Snapshot);
            }
            Step::Restart => {
                self.slots = self.saved.clone();
                self.run += 1;
                self.tell(number, Event::Restarts);
            }
            Step::Forget => {
                self.process = None;
                self.tell(number, Event::Forgets);
            }
            Step::Fetch => {
                let found = self.state().cache.flatten();
                self.actors[number].read = Some(found);
                self.actors[number].note = self.changes;
                self.tell(number, Event::Fetches(found));
            }
            Step::Keep => {
                let Actor { read, note, .. } = self.actors[number];
                let changed = self.leases == Leases::Leasehold && note != self.changes;
                match changed {
                    true => self.tell(number, Event::KeepsNothing),
                    false => {
                        self.process = read.flatten();
                        self.tell(number, Event::Keeps(self.process));
                    }
                }
            }
        }
    }

    /// `fill.lua`. That there is no row is an entry too with Leasehold, and none with cache-aside.
    fn fill(&mut self, number: usize) {
        let (leases, token) = (self.leases, self.actors[number].token);
        let Some(value) = self.actors[number].read else { return };
        let slot = self.slot(number);
        let own = slot.lease.filter(|(_, _, writer)| !writer).map(|(owner, ..)| owner) == token;
        let allowed = match leases {
            Leases::None => value.is_some(),
            Leases::ByOrder => token >= Some(slot.last),
            Leases::ByClient | Leases::Leasehold => token.is_some() && own,
        };
        if !allowed {
            // There is nothing to fill where the recipe does not keep that there is no row.
            if leases != Leases::None {
                self.tell(number, Event::Refused(value));
            }
            return;
        }
        slot.lease = None;
        self.put(number, value);
        self.tell(number, Event::Fills(value));
        self.wake();
    }

    /// The first step of `write.lua`.
    fn begin(&mut self, number: usize) {
        self.actors[number].token = Some(self.tokens);
        let (token, until) = (self.tokens, self.now + HOLD);
        self.tokens += 1;
        let slot = self.slot(number);
        (slot.entry, slot.lease) = (None, None);
        slot.holds.insert(token, until);
        if slot.holds.len() == 1 {
            slot.lease = Some((token, until, true));
        }
        self.tell(number, Event::Begins);
        self.wake();
    }

    /// The last step of `write.lua`.
    fn end_write(&mut self, number: usize, step: Step) {
        let token = self.actors[number].token;
        let slot = self.slot(number);
        if let Some(token) = token {
            slot.holds.remove(&token);
        }
        let own = slot.lease.map(|(owner, _, writer)| (Some(owner), writer)) == Some((token, true));
        match step {
            Step::CommittedWith(value) if own => {
                slot.lease = None;
                self.put(number, Some(value));
                self.tell(number, Event::Sets(value));
            }
            Step::CommittedWith(value) => {
                self.remove(number);
                self.tell(number, Event::NotTaken(value));
            }
            _ => {
                self.remove(number);
                self.tell(number, Event::Deletes);
            }
        }
    }

    fn remove(&mut self, number: usize) {
        let leases = self.leases;
        let slot = self.slot(number);
        slot.entry = None;
        if matches!(leases, Leases::ByClient | Leases::Leasehold) {
            slot.lease = None;
        }
        // The process learns of it at once.
        if leases == Leases::Leasehold {
            self.changes += 1;
            self.process = None;
        }
        self.wake();
    }

    fn put(&mut self, number: usize, value: Option<u64>) {
        let (until, run) = (self.now + TTL, self.run);
        self.slot(number).entry = Some(Entry { value, until, run });
    }

    /// Readers that wait ask again.
    fn wake(&mut self) {
        for number in std::mem::take(&mut self.waiting) {
            self.at(self.now + 1, number);
        }
    }
}
