//! The whole system at one moment, and the server's side of a step.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_proto::handoff::TOKEN_LEAD;
use leasehold_proto::read_write::Converted;
use leasehold_proto::{AttemptId, Now};

use super::client::World;
use super::ids::{OPERATOR, attempt, client_of};
use super::{
    Answer, Broken, Call, Client, History, Link, Message, Phase, Primitive, Push, Setup, Stay,
    TICK, Use, Want,
};

/// Who changes the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operator {
    /// How many changes it has made.
    pub done: usize,
    /// It waits for an answer.
    pub asking: bool,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Primitive> {
    /// The server.
    pub record: P::Record,
    /// The clients' clock.
    pub clock: u8,
    /// How far the server's clock is ahead of it.
    pub ahead: u8,
    /// How long the server was away, in microseconds.
    pub away: u64,
    /// The clients.
    pub clients: Vec<Client>,
    /// The operator.
    pub operator: Operator,
    /// What is in flight.
    pub network: BTreeSet<Message>,
    /// How many faults may still happen.
    pub faults: u8,
    /// What has happened.
    pub history: History,
}

impl<P: Primitive> State<P> {
    pub(super) fn new(setup: &Setup<P>) -> Self {
        Self {
            record: P::record(setup),
            clock: 0,
            ahead: 0,
            away: 0,
            clients: (0..setup.clients.len() as u8).map(Client::new).collect(),
            operator: Operator::default(),
            network: BTreeSet::new(),
            faults: setup.faults,
            history: History::default(),
        }
    }

    /// The server's time. The wall clock does not advance unless data may be lost: the floor that it
    /// gives to tokens would hide errors.
    pub(super) fn now(&self) -> Now {
        let ticks = TICK * u32::from(self.clock + self.ahead);
        let wall_us = if self.away > 0 { self.away + ticks.as_micros() as u64 } else { 0 };
        Now { steady_ns: ticks.as_nanos() as u64, wall_ns: wall_us * 1000 }
    }

    /// The server restarts without its data. It was away for longer than tokens are ahead of the
    /// clock.
    pub(super) fn wipe(&mut self, setup: &Setup<P>) {
        self.away += u64::from(TOKEN_LEAD);
        self.record = P::record(setup);
        self.history.patience.clear();
    }

    /// Lets a client do something.
    pub(super) fn with<T>(
        &mut self,
        setup: &Setup<P>,
        id: u8,
        act: impl FnOnce(&mut Client, &mut World<'_>) -> T,
    ) -> T {
        let Self { clients, network, history, clock, .. } = self;
        let mut world = World {
            clock: *clock,
            rules: setup.client_bug,
            caches: setup.caches,
            cache_bug: setup.cache_bug,
            ttl: setup.ttl(clients[usize::from(id)].role),
            limit: setup.limit,
            polls: setup.polls,
            in_order: setup.is_good(),
            network,
            history,
        };
        act(&mut clients[usize::from(id)], &mut world)
    }

    /// A message arrives.
    pub(super) fn deliver(&mut self, setup: &Setup<P>, message: Message) {
        match message {
            Message::Request { from, sent, late, call } => {
                let at = self.clock + self.ahead;
                let answer = self.serve(setup, from, call);
                if late {
                    return;
                }
                let at = if matches!(answer, Answer::Queued(_)) { at } else { 0 };
                let attempt = call.attempt();
                // The answer to an end is not delayed: a delay would only let the client repeat it,
                // which is among the faults.
                if !matches!(call, Call::End(..)) {
                    self.network.insert(Message::Reply { to: from, attempt, sent, at, answer });
                    return;
                }
                let more = P::has_more(&self.record, self.now()) && !setup.mute;
                self.with(setup, from, |client, world| {
                    client.handle_reply(world, attempt, (sent, at), answer);
                    client.go_on(world, more);
                });
            }
            Message::Reply { to: OPERATOR, answer, .. } => {
                self.operator.asking = false;
                self.operator.done += usize::from(answer == Answer::Limit(true));
            }
            Message::Reply { to, attempt, sent, at, answer } => {
                self.with(setup, to, |client, world| {
                    client.handle_reply(world, attempt, (sent, at), answer);
                });
            }
            Message::Push { to, attempt, at, push } => {
                self.with(setup, to, |client, world| {
                    client.handle_push(world, attempt, at, push);
                });
            }
        }
    }

    /// The server carries out a request, and pushes what is to be pushed.
    fn serve(&mut self, setup: &Setup<P>, from: u8, call: Call) -> Answer {
        let now = self.now();
        let before = (self.record.clone(), P::leases(&self.record, now));
        let mut pushes = Vec::new();
        let mut sent = 0;
        let clients = &self.clients;
        let mut reach = |attempt: AttemptId, push: Push| {
            sent += 1;
            let to = client_of(attempt);
            let link = clients.get(usize::from(to)).map_or(Link::Gone, |client| client.link);
            if link == Link::Up {
                pushes.push((to, attempt, push));
            }
            link != Link::Gone
        };
        let role = self.clients.get(usize::from(from)).map_or(0, |client| client.role);
        let ttl = ticks(setup.ttl(role));
        let answer = P::carry_out(&mut self.record, now, &call, ttl, &mut reach);
        if sent > P::MOST_PUSHES {
            self.history.breaks(Broken::Work);
        }
        let after = P::leases(&self.record, now);
        self.remember((&call, &answer), (&before.1, &after));
        let clients = &self.clients;
        let lives = |attempt| lives(clients, attempt);
        let (step, record) = ((&call, &answer), (&self.record, after.as_slice()));
        let judged = P::judge(
            &mut self.history,
            (&before.0, before.1.as_slice()),
            record,
            now,
            step,
            &lives,
        );
        if let Some(broken) = judged {
            self.history.breaks(broken);
        }
        for (to, attempt, push) in pushes {
            let client = &self.clients[usize::from(to)];
            if client.up && (push != Push::Wanted || client.heeds_wanted(setup, attempt)) {
                let granted = matches!(push, Push::Granted { .. });
                let at = if granted { self.clock + self.ahead } else { 0 };
                self.network.insert(Message::Push { to, attempt, at, push });
            }
        }
        answer
    }

    /// Writes down what a step did, and checks what holds for every primitive.
    fn remember(
        &mut self,
        (call, answer): (&Call, &Answer),
        (before, after): (&[super::Lease], &[super::Lease]),
    ) {
        let callers = match call {
            Call::Convert(request) => [request.end.attempt, request.next],
            Call::SetLimit(..) => [attempt(OPERATOR, 0); 2],
            _ => [call.attempt(); 2],
        };
        for lease in after {
            let same = |one: &&super::Lease| (one.attempt, one.base) == (lease.attempt, lease.base);
            match before.iter().find(same) {
                None => self.history.grants(lease),
                Some(one) if !callers.contains(&lease.attempt) => {
                    if (lease.until_ns, lease.confirmed) != (one.until_ns, one.confirmed) {
                        self.history.breaks(Broken::Prolonged);
                    }
                }
                Some(_) => {}
            }
        }
        match (call, answer) {
            (Call::End(release, slot), Answer::Ended(verdict)) => {
                self.history.releases(release.attempt, before);
                self.history.tells(release, *slot, *verdict);
                if release.attempt != attempt(client_of(release.attempt), 0) {
                    self.history.ended.insert(release.attempt);
                }
            }
            (Call::Convert(request), Answer::Converted(Converted::Granted { .. })) => {
                self.history.releases(request.end.attempt, before);
                self.history.ended.insert(request.end.attempt);
            }
            (Call::Convert(request), Answer::Converted(Converted::Refused { .. }))
                if request.again =>
            {
                self.history.ended.insert(request.next);
            }
            _ => {}
        }
    }

    /// Takes out what can have no effect any more.
    pub(super) fn sweep(&mut self) {
        let clients = &self.clients;
        self.network.retain(|message| match message {
            Message::Request { .. } | Message::Reply { to: OPERATOR, .. } => true,
            Message::Reply { to, attempt, .. } => {
                clients[usize::from(*to)].unanswered().any(|asked| asked == *attempt)
            }
            Message::Push { to, .. } => clients[usize::from(*to)].up,
        });
    }
}

impl Client {
    /// The answer to an end says that waiters are left to another step: the client sends another
    /// end, for an attempt that no client has made.
    fn go_on(&mut self, world: &mut World<'_>, more: bool) {
        let nobody = leasehold_proto::client::stray(attempt(self.id, 0));
        if more && self.up && !self.tracks(nobody.attempt) {
            let nobody = leasehold_proto::handoff::ReleaseRequest { suspect: false, ..nobody };
            self.end(world, nobody, None);
        }
    }

    /// The message that others wait would change something.
    fn heeds_wanted<P: Primitive>(&self, setup: &Setup<P>, attempt: AttemptId) -> bool {
        let Some(found) = self.find(attempt) else { return !self.tracks(attempt) };
        let more = setup.stay == Stay::UntilWanted || self.begun < setup.clients[self.role].len();
        let heeds = |task: Use| match task {
            Use::Hold(want) => want == Want::Read && (more || setup.caches),
            Use::Downgrade => more,
            Use::Upgrade => true,
        };
        match &self.phases[found] {
            Phase::Waiting(waiting) => heeds(waiting.task),
            Phase::Holding(holding) => heeds(holding.task) && !holding.is_heard(),
            Phase::Converting(_) => true,
        }
    }
}

impl super::Holding {
    /// Another message that others wait would change nothing.
    fn is_heard(&self) -> bool {
        self.shared.is_some() && self.is_shut()
    }
}

/// The client of an attempt has not crashed.
pub(super) fn lives(clients: &[Client], attempt: AttemptId) -> bool {
    clients.get(usize::from(client_of(attempt))).is_some_and(|client| client.up)
}

/// The time of so many ticks.
pub(super) fn ticks(count: u8) -> Duration {
    TICK * u32::from(count)
}
