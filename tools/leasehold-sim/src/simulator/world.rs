//! A run: the events in the order of their times, and who gets them.

mod links;
mod trouble;
mod upkeep;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use leasehold_proto::quorum::{Admission, ProcessId, Request, Task};
use leasehold_proto::{AttemptId, Now};

use super::client::{Client, Phase, Said};
use super::clock::Clock;
use super::invariants::{Seen, Watch};
use super::node::Server;
use super::parcel::Parcel;
use super::resource::Resource;
use super::trace::{Entry, What};
use super::{Bug, Fault, MS, Plan, Rng};

/// No wake.
const NEVER: (u64, u64) = (u64::MAX, u64::MAX);
/// The operator stands behind the clients.
const OPERATOR: usize = usize::MAX;

/// Something on its way to a node.
#[derive(Clone, Copy, Debug)]
enum Order {
    Vote(AttemptId, Request, Option<ProcessId>, bool),
    Task(u32, Task),
    /// Tell me of the next release.
    Listen,
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Fault(usize),
    /// A client has something to do. Of these there is one for each client, beside the queue.
    Wake(usize),
    ToNode {
        client: usize,
        life: u32,
        node: usize,
        order: Order,
    },
    ToClient {
        client: usize,
        life: u32,
        parcel: Parcel,
    },
    Write {
        client: usize,
        life: u32,
        token: u64,
        read: [u64; 2],
    },
    /// A client's random value comes to the resource that compares such values.
    Claim {
        client: usize,
        token: u64,
    },
    /// A client's connection to a node was made anew.
    Reset {
        client: usize,
        node: usize,
    },
    Back(usize),
    Operate,
}

struct World<'a> {
    plan: &'a Plan,
    rng: Rng,
    time: u64,
    serial: u64,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Happens>>,
    free: Vec<usize>,
    nodes: Vec<Server>,
    clients: Vec<Client>,
    /// When each client is to be woken, and which event that would be.
    wakes: Vec<(u64, u64)>,
    resources: [Resource; 2],
    cuts: Vec<(usize, usize, u64)>,
    mute: Vec<(usize, usize, u64)>,
    slow: Vec<(usize, usize, u64, u64)>,
    calm: bool,
    operator: Option<Admission>,
    /// What the operator takes for a node, for a planted bug.
    ghosts: Vec<Option<Server>>,
    /// Who is to be told of a release.
    waiters: Vec<usize>,
    /// Whose random value stands at the resource that compares them; their tokens stand for them.
    claimed: u64,
    /// The next client that asks is paused for this long, before it receives any reply.
    ambush: Option<u64>,
    /// The nodes' high-water marks when the last one was started again, for a planted bug.
    early: Vec<u64>,
    watch: Watch,
    trace: Vec<Entry>,
    /// Room for what a client says.
    said: Vec<Said>,
    owners: Vec<Option<usize>>,
}

/// Plays a plan; the same seed gives the same run.
pub fn run(plan: &Plan, seed: u64) -> (Seen, Vec<Entry>) {
    let mut world = World::new(plan, seed);
    while let Some((time, event)) = world.next() {
        if time > plan.end {
            break;
        }
        world.time = time;
        world.happen(event);
    }
    world.finish()
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clock = |rng: &mut Rng| match plan.clocks_differ {
            true => Clock {
                ppm: rng.below(9_000) as i64 - 4_500,
                wall: rng.below(2 * plan.skew + 1) as i64 - plan.skew as i64,
                steady: rng.below(1 << 40) as i64,
            },
            false => Clock { ppm: 0, wall: 0, steady: 0 },
        };
        let mut nodes: Vec<Server> =
            (0..plan.setup.nodes()).map(|node| Server::new(plan, node, clock(&mut rng))).collect();
        for (_, fault) in &plan.faults {
            if let Fault::NodeRate { node, ppm } = fault
                && let Some(node) = nodes.get_mut(*node)
            {
                node.clock.ppm = *ppm;
            }
        }
        let clients: Vec<Client> = (0..plan.clients.len())
            .map(|number| Client::new(plan, number, clock(&mut rng), 0, 0))
            .collect();
        let mut world = Self {
            plan,
            rng,
            time: 0,
            serial: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            owners: vec![None; nodes.len()],
            nodes,
            wakes: vec![NEVER; clients.len()],
            watch: Watch::new(plan, clients.len()),
            clients,
            resources: [Resource::new(false), Resource::new(true)],
            cuts: Vec::new(),
            mute: Vec::new(),
            slow: Vec::new(),
            calm: false,
            operator: None,
            ghosts: Vec::new(),
            waiters: Vec::new(),
            claimed: 0,
            ambush: None,
            early: Vec::new(),
            trace: Vec::new(),
            said: Vec::new(),
        };
        for (index, (time, _)) in plan.faults.iter().enumerate() {
            world.at(*time, Happens::Fault(index));
        }
        for client in 0..world.clients.len() {
            if plan.looks_first {
                world.send(client);
            }
            world.settle(client);
        }
        world
    }

    fn at(&mut self, time: u64, event: Happens) {
        self.serial += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(event);
        self.queue.push(Reverse((time, self.serial, slot)));
    }

    /// What happens next, and when.
    fn next(&mut self) -> Option<(u64, Happens)> {
        let (mut wake, mut client) = (NEVER, 0);
        for (number, other) in self.wakes.iter().enumerate() {
            if *other < wake {
                (wake, client) = (*other, number);
            }
        }
        let queued = self.queue.peek().map(|Reverse((time, serial, _))| (*time, *serial));
        if wake < queued.unwrap_or(NEVER) {
            return Some((wake.0, Happens::Wake(client)));
        }
        let Reverse((time, _, slot)) = self.queue.pop()?;
        let event = self.events.get_mut(slot).and_then(Option::take)?;
        self.free.push(slot);
        Some((time, event))
    }

    fn tell(&mut self, what: What) {
        if self.plan.traced {
            self.trace.push(Entry { time: self.time, what });
        }
    }

    fn tell_deadline(&mut self, number: usize) {
        let client = &self.clients[number];
        let deadline = client.lease.as_ref().and_then(|lease| lease.deadline());
        if let Some(deadline) = deadline {
            self.tell(What::ValidUntil(number, client.clock.when(self.time, deadline)));
        }
    }

    fn happen(&mut self, event: Happens) {
        match event {
            Happens::Fault(index) => self.fault(self.plan.faults[index].1),
            Happens::Wake(client) => {
                self.wakes[client] = NEVER;
                self.give(client, None);
            }
            Happens::ToNode { client, life, node, order } => self.serve(client, life, node, order),
            Happens::ToClient { client, life, parcel } => {
                if client == OPERATOR {
                    if let (Parcel::Done(node, serial, reply), bits) = (parcel, self.rng.bits())
                        && let Some(operator) = &mut self.operator
                    {
                        operator.handle_reply(operator_clock(self.time), node, serial, reply, bits);
                        self.operate();
                    }
                } else if self.clients[client].life == life {
                    self.give(client, Some(parcel));
                }
            }
            Happens::Reset { client, node } => {
                let now = self.clients[client].clock.read(self.time);
                if let Some(admission) = &mut self.clients[client].admission {
                    admission.handle_doubt(now, node);
                    self.give(client, None);
                }
            }
            Happens::Write { client, life, token, read } => self.write(client, life, token, read),
            Happens::Claim { client, token } => self.claim(client, token),
            Happens::Back(client) => {
                let life = self.clients[client].life;
                let clock = self.clients[client].clock;
                self.clients[client] = Client::new(self.plan, client, clock, life + 1, self.time);
                self.tell(What::GoesOn(client));
                self.settle(client);
            }
            Happens::Operate => {
                if let Some(operator) = &mut self.operator {
                    operator.handle_timeout(operator_clock(self.time));
                    self.operate();
                }
            }
        }
    }

    /// A client gets something, or looks at its timers; one that is stopped does so later.
    fn give(&mut self, number: usize, parcel: Option<Parcel>) {
        let time = self.time;
        let client = &mut self.clients[number];
        if client.phase == Phase::Gone {
            return;
        }
        if client.stopped_until > time {
            client.inbox.extend(parcel);
            return self.settle(number);
        }
        let mut said = std::mem::take(&mut self.said);
        let stopped = client.stopped_until > 0;
        if stopped {
            client.stopped_until = 0;
            client.startled = true;
            // The program goes on where it was before anything that has arrived is looked at.
            client.step(self.plan, time, &mut self.rng, &mut said);
        }
        let client = &mut self.clients[number];
        while let Some(waiting) = client.inbox.pop_front() {
            client.take(self.plan, time, &mut self.rng, waiting, &mut said);
        }
        if let Some(parcel) = parcel {
            client.take(self.plan, time, &mut self.rng, parcel, &mut said);
        }
        if self.plan.bug == Some(Bug::MajorityOfConnected) {
            let cuts = &self.cuts;
            let cut = |node: usize| {
                cuts.iter().any(|cut| cut.0 == number && cut.1 == node && cut.2 > time)
            };
            client.connected = (0..self.nodes.len())
                .filter(|node| !cut(*node) && self.nodes[*node].down_until <= time)
                .collect();
        }
        client.step(self.plan, time, &mut self.rng, &mut said);
        if stopped {
            self.tell(What::GoesOn(number));
        }
        let asks = said.contains(&Said::Asks)
            && self.nodes.iter().all(|node| node.lease(self.time).is_none());
        self.say(number, &said);
        said.clear();
        self.said = said;
        self.send(number);
        if let Some(time) = self.ambush.take_if(|_| asks) {
            return self.fault(Fault::Pause { client: number, time });
        }
        self.settle(number);
    }

    fn say(&mut self, number: usize, said: &[Said]) {
        let time = self.time;
        for one in said.iter().copied() {
            match one {
                Said::Asks => self.watch.asks(number, time),
                Said::Held { attempt, token } => {
                    let read = [self.resources[0].read(0), self.resources[1].read(token.get())];
                    if let Phase::Works { read: into, .. } = &mut self.clients[number].phase {
                        *into = read;
                    }
                    let others: Vec<usize> = (0..self.clients.len())
                        .filter(|other| {
                            let other_client = &self.clients[*other];
                            // After a forced release a holder learns later that it is none.
                            *other != number
                                && !other_client.forced
                                && other_client.believes(self.plan, time)
                        })
                        .collect();
                    let leases = self.leases(attempt);
                    self.watch.held(number, time, attempt, token, &others, leases);
                    let shown = self.plan.setup.tokens().then_some(token.get());
                    self.tell(What::Holds(number, shown));
                    self.tell_deadline(number);
                    if self.plan.by_value {
                        let arrives = time + self.clients[number].behaviour.claim;
                        let token = token.get();
                        self.at(arrives, Happens::Claim { client: number, token });
                    }
                    others.iter().for_each(|other| self.tell(What::Overlap(*other, number)));
                    continue;
                }
                // The renewal was on its way when the lease was released by force.
                Said::Renewed { .. } if self.clients[number].forced => continue,
                Said::Renewed { token } => {
                    let leases =
                        self.clients[number].attempts.last().map(|one| self.leases(one.id()));
                    self.watch.renewed(time, token, leases.unwrap_or(0));
                    self.tell_deadline(number);
                }
                Said::Lost { in_time } => self.watch.lost(in_time),
                Said::Sends { token, read } => {
                    let later = time + self.rng.between(MS / 5, 2 * MS);
                    let life = self.clients[number].life;
                    self.at(later, Happens::Write { client: number, life, token, read });
                }
                Said::Denied | Said::NotValid => {}
                Said::Changed(change) => {
                    self.tell(What::Client(number, change));
                    continue;
                }
                Said::Listens => self.post(number, 0, Order::Listen),
                Said::Released => self.watch.released(number, time),
            }
            let what = match one {
                Said::Asks => What::Asks(number),
                Said::Denied => What::Denied(number),
                Said::Lost { .. } => What::Loses(number),
                Said::NotValid => What::NotValid(number),
                Said::Released => What::Releases(number),
                _ => continue,
            };
            self.tell(what);
        }
    }

    /// On how many nodes an attempt has the lease.
    fn leases(&self, attempt: AttemptId) -> usize {
        let has = |node: &&Server| node.lease(self.time).is_some_and(|one| one.attempt == attempt);
        self.nodes.iter().filter(has).count()
    }

    fn write(&mut self, client: usize, life: u32, token: u64, read: [u64; 2]) {
        let plain = self.resources[0].write(token, read[0] + 1);
        let fenced = self.resources[1].write(token, read[1] + 1);
        self.tell(What::Writes(client, plain, fenced));
        if self.plan.by_value {
            self.tell(What::ByValue(client, self.claimed == token));
        }
        if self.clients[client].life == life {
            let later = self.time + MS / 2;
            let parcel = Parcel::Written;
            self.at(later, Happens::ToClient { client, life, parcel });
        }
    }

    fn claim(&mut self, client: usize, token: u64) {
        self.claimed = token;
        self.tell(What::Claims(client));
    }

    /// Sees to it that a client is woken when it has something to do.
    fn settle(&mut self, number: usize) {
        let client = &self.clients[number];
        let stopped = (client.stopped_until > self.time).then_some(client.stopped_until);
        let Some(next) = stopped.or_else(|| client.next(self.time)) else { return };
        let next = next.max(self.time + 1);
        if next < self.wakes[number].0 {
            self.serial += 1;
            self.wakes[number] = (next, self.serial);
        }
    }

    fn holder(&self) -> Option<usize> {
        (0..self.clients.len()).find(|client| self.clients[*client].believes(self.plan, self.time))
    }

    fn finish(self) -> (Seen, Vec<Entry>) {
        let nodes = self.nodes.iter().filter(|node| {
            node.lease(self.plan.end).is_some_and(|lease| lease.remaining > self.plan.ttl * 2)
        });
        let orphans = nodes.count();
        let seen = self.watch.finish(self.plan, &self.resources, orphans);
        (seen, self.trace)
    }
}

/// The client that made an attempt.
fn owner_of(attempt: AttemptId) -> Option<usize> {
    usize::from_str_radix(&attempt.client().to_string(), 16).ok()
}

/// The operator's clock is right.
fn operator_clock(time: u64) -> Now {
    Clock { ppm: 0, wall: 0, steady: 0 }.read(time)
}
