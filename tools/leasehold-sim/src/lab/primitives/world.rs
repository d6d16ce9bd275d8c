//! Clients, one server and a resource with a fence: what happens when, from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::{AttemptId, Now};

use super::client::{Act, Client, Deed, now};
use super::store::{Answer, Call, Held, Push, Store, Want, client};
use crate::simulator::Rng;

/// How long a message is on its way, in milliseconds: from and to.
const WAY: (u64, u64) = (1, 5);

/// What happens to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is stopped for so many milliseconds.
    Pause(u64),
    Crash,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Waits,
    Holds(Option<u64>, Option<u32>),
    Releases,
    /// It checks its guard, which is valid or not.
    Checks(bool),
    Announces(u64),
    /// The row, its value, and whether the reader has read another value in the other row.
    Reads(usize, u64, bool),
    /// Whether the fence let it pass.
    Writes(bool),
    Pauses,
    Continues,
    Crashes,
    /// Its lease has ended by its own clock, and it does not know.
    Ends,
    /// It learns that its lease has ended.
    Loses,
}

/// What the server and the resource have at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) held: Held,
    /// The value of both rows.
    pub(super) rows: u64,
    /// The largest token that the fence has seen.
    pub(super) fence: Option<u64>,
}

/// From when to when a client believed that it held something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The client, by its place among all.
    pub client: usize,
    /// What it held.
    pub want: Want,
    /// From when on, in milliseconds.
    pub from: u64,
    /// Until when; `None` for the end of the story.
    pub until: Option<u64>,
    /// Its token; a counter grants none.
    pub token: Option<u64>,
    /// Its slot of a semaphore.
    pub slot: Option<u32>,
}

#[derive(Debug)]
enum Happening {
    Wake(usize),
    Request(usize, Call, Now),
    Answer(usize, AttemptId, Now, u64, Answer),
    Push(AttemptId, u64, Push),
    Fault(usize, Fault),
    Continue(usize),
    /// A lease may have ended: at the server, or by the clock of a client.
    Look,
}

/// The whole world.
#[derive(Debug)]
pub(super) struct World {
    now: u64,
    pub(super) end: u64,
    ttl: Duration,
    rng: Rng,
    store: Store,
    clients: Vec<Client>,
    queue: BTreeMap<(u64, u64), Happening>,
    serial: u64,
    rows: u64,
    fence: Option<u64>,
    /// What each client has read in the rows.
    read: Vec<[Option<u64>; 2]>,
    waits: Vec<Option<u64>>,
    pub(super) told: Vec<(u64, usize, Event)>,
    pub(super) states: Vec<(u64, State)>,
    pub(super) holds: Vec<Hold>,
    /// Who waited from when to when; `None` for the end of the story.
    pub(super) waited: Vec<(usize, u64, Option<u64>)>,
    pub(super) asked: Vec<(u64, usize)>,
}

impl World {
    /// A world in which both rows have the value 1.
    pub(super) fn new(store: Store, ttl: u64, end: u64, rng: Rng) -> Self {
        Self {
            now: 0,
            end,
            ttl: Duration::from_millis(ttl),
            rng,
            store,
            clients: Vec::new(),
            queue: BTreeMap::new(),
            serial: 0,
            rows: 1,
            fence: None,
            read: Vec::new(),
            waits: Vec::new(),
            told: Vec::new(),
            states: Vec::new(),
            holds: Vec::new(),
            waited: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Adds a client that asks at these times, and does this work under each grant.
    pub(super) fn client(&mut self, want: Want, starts: Vec<u64>, work: &[(u64, Act)]) {
        let number = self.clients.len();
        self.clients.push(Client::new(number as u64, want, starts, work.to_vec(), self.ttl));
        self.read.push([None; 2]);
        self.waits.push(None);
        self.at(0, Happening::Wake(number));
    }

    pub(super) fn fault(&mut self, time: u64, client: usize, fault: Fault) {
        self.at(time, Happening::Fault(client, fault));
    }

    /// Plays to the end.
    pub(super) fn play(&mut self) {
        self.note_state();
        while let Some(((time, _), happening)) = self.queue.pop_first() {
            if time > self.end {
                break;
            }
            self.now = time;
            self.happen(happening);
            self.note_state();
        }
        let open = self.waits.iter().enumerate();
        self.waited.extend(open.filter_map(|(client, since)| Some((client, (*since)?, None))));
    }

    /// The clients that wait at the end, and have held nothing since they came.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> {
        let clients = self.clients.iter().enumerate();
        clients.filter(|(_, client)| client.is_waiting()).map(|(number, _)| number)
    }

    /// The clients that hold something at the end and have not crashed.
    pub(super) fn holding(&self) -> impl Iterator<Item = usize> {
        let clients = self.clients.iter().enumerate();
        clients.filter(|(_, client)| client.holding().is_some()).map(|(number, _)| number)
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.serial += 1;
        self.queue.insert((time, self.serial), happening);
    }

    fn later(&mut self, happening: Happening) {
        let way = self.rng.between(WAY.0, WAY.1);
        self.at(self.now + way, happening);
    }

    fn tell(&mut self, client: usize, event: Event) {
        self.told.push((self.now, client, event));
    }

    fn note_state(&mut self) {
        let held = self.store.held(now(self.now));
        let state = State { held, rows: self.rows, fence: self.fence };
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((self.now, state));
        }
    }

    fn happen(&mut self, happening: Happening) {
        let about = match &happening {
            Happening::Wake(client) | Happening::Answer(client, ..) => Some(*client),
            Happening::Push(attempt, ..) => Some(client(*attempt) as usize),
            _ => None,
        };
        // What reaches a client that is stopped waits in front of it.
        if let Some(until) = about.and_then(|client| self.clients[client].stopped) {
            return self.at(until, happening);
        }
        match happening {
            Happening::Wake(client) => self.go_on(client),
            Happening::Request(client, call, sent) => self.serve(client, call, sent),
            Happening::Answer(client, attempt, sent, server, answer) => {
                let (times, rng) = ((server, self.now), &mut self.rng);
                let deed = self.clients[client].handle_answer((attempt, sent), answer, times, rng);
                deed.into_iter().for_each(|deed| self.act(client, deed));
                self.go_on(client);
            }
            Happening::Push(attempt, server, push) => {
                let client = client(attempt) as usize;
                self.clients[client].handle_push(attempt, push, server, self.now);
                self.go_on(client);
            }
            Happening::Fault(client, Fault::Pause(time)) => {
                self.clients[client].stopped = Some(self.now + time);
                self.tell(client, Event::Pauses);
                self.at(self.now + time, Happening::Continue(client));
            }
            Happening::Fault(client, Fault::Crash) => {
                self.clients[client].crash();
                self.tell(client, Event::Crashes);
                self.close(client);
                self.waits[client] = None;
            }
            Happening::Continue(client) => {
                self.clients[client].stopped = None;
                self.tell(client, Event::Continues);
                self.go_on(client);
            }
            Happening::Look => self.look(),
        }
    }

    /// Carries a request out at the server.
    fn serve(&mut self, client: usize, call: Call, sent: Now) {
        let want = self.clients[client].want;
        let mut pushes = Vec::new();
        let reach = &mut |attempt, push| pushes.push((attempt, push));
        let answer = self.store.carry_out(now(self.now), (call, want), self.ttl, reach);
        for (attempt, push) in pushes {
            self.later(Happening::Push(attempt, self.now, push));
        }
        if let Call::Acquire(attempt) | Call::Renew(attempt, _) = call {
            self.later(Happening::Answer(client, attempt, sent, self.now, answer));
        }
        if let Some(end) = self.store.next_end(now(self.now)) {
            self.at(end.div_ceil(1_000_000), Happening::Look);
        }
    }

    /// Does what is due for a client, and looks after it again when more will be.
    fn go_on(&mut self, client: usize) {
        while let Some(deed) = self.clients[client].poll(self.now, &mut self.rng) {
            self.act(client, deed);
        }
        if let Some(next) = self.clients[client].next() {
            self.at(next.max(self.now + 1), Happening::Wake(client));
        }
        if let Some(deadline) = self.clients[client].holding().and_then(|held| held.deadline()) {
            self.at(deadline.max(self.now), Happening::Look);
        }
    }

    fn act(&mut self, client: usize, deed: Deed) {
        match deed {
            Deed::Send(call, sent) => {
                if let Call::Acquire(_) = call {
                    self.asked.push((self.now, client));
                    self.waits[client].get_or_insert(self.now);
                }
                self.later(Happening::Request(client, call, sent));
            }
            Deed::Waits => self.tell(client, Event::Waits),
            Deed::Holds => {
                let Some(held) = self.clients[client].holding() else { return };
                let (token, slot) = (held.token(), held.slot);
                let want = self.clients[client].want;
                self.holds.push(Hold { client, want, from: self.now, until: None, token, slot });
                if let Some(since) = self.waits[client].take() {
                    self.waited.push((client, since, Some(self.now)));
                }
                self.tell(client, Event::Holds(token, slot));
            }
            Deed::Acts(Act::Release) => {
                self.tell(client, Event::Releases);
                self.release(client);
            }
            Deed::Acts(act) => self.work(client, act),
            Deed::Loses => {
                self.tell(client, Event::Loses);
                self.release(client);
            }
        }
    }

    fn release(&mut self, client: usize) {
        self.close(client);
        self.read[client] = [None; 2];
        if let Some(call) = self.clients[client].release(self.now) {
            self.later(Happening::Request(client, call, now(self.now)));
        }
    }

    /// Does something at the resource.
    fn work(&mut self, client: usize, act: Act) {
        let Some(held) = self.clients[client].holding() else { return };
        let (token, valid) = (held.token(), held.deadline().is_none_or(|end| end > self.now));
        match act {
            Act::Check => self.tell(client, Event::Checks(valid)),
            Act::Announce => {
                let Some(token) = token else { return };
                self.fence = self.fence.max(Some(token));
                self.tell(client, Event::Announces(token));
            }
            Act::Read(row) => {
                let other = self.read[client][1 - row];
                let torn = other.is_some_and(|other| other != self.rows);
                self.read[client][row] = Some(self.rows);
                self.tell(client, Event::Reads(row, self.rows, torn));
            }
            Act::Write => {
                let passes = token >= self.fence;
                if passes {
                    (self.rows, self.fence) = (self.rows + 1, token);
                }
                self.tell(client, Event::Writes(passes));
            }
            Act::Release => {}
        }
    }

    /// A client believes no longer that it holds.
    fn close(&mut self, client: usize) {
        let open = |hold: &&mut Hold| hold.client == client && hold.until.is_none();
        if let Some(hold) = self.holds.iter_mut().rev().find(open) {
            hold.until = Some(self.now);
        }
    }

    /// Leases may have ended.
    fn look(&mut self) {
        for client in 0..self.clients.len() {
            let deadline = self.clients[client].holding().and_then(|held| held.deadline());
            let open = self.holds.iter().any(|one| one.client == client && one.until.is_none());
            if open && deadline.is_some_and(|deadline| deadline <= self.now) {
                self.close(client);
                self.tell(client, Event::Ends);
            }
        }
        if let Some(end) = self.store.next_end(now(self.now)) {
            self.at(end.div_ceil(1_000_000).max(self.now + 1), Happening::Look);
        }
    }
}
