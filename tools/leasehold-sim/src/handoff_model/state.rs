//! The whole system at one moment, and the server's side of a step.

use std::collections::BTreeSet;

use leasehold_proto::handoff::Answer::Queued;
use leasehold_proto::handoff::{Push, ReleaseRequest, Verdict};
use leasehold_proto::{AttemptId, Now, Token};

use super::attempt_id::client_of;
use super::server::{Reach, Record, Server, at, told};
use super::{Answered, Broken, Bug, Call, Client, Fate, History, Message, Setup};

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The server.
    pub server: Server,
    /// Its clock.
    pub server_time: u8,
    /// The clients' clock.
    pub clock: u8,
    /// The clients.
    pub clients: Vec<Client>,
    /// What is in flight.
    pub network: BTreeSet<Message>,
    /// How many faults may still happen.
    pub faults: u8,
    /// What has happened.
    pub history: History,
    /// How many maintenance operations may still happen.
    pub upkeep: u8,
    /// How far the server's wall clock is ahead, in microseconds.
    pub ahead: u32,
    /// How long the server was away in total, in microseconds.
    pub away: u32,
    /// The data that the server may return with.
    pub copy: Option<Record>,
}

impl State {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            server: Server::default(),
            server_time: 0,
            clock: 0,
            clients: (0..setup.clients).map(Client::new).collect(),
            network: BTreeSet::new(),
            faults: setup.faults,
            history: History::default(),
            upkeep: setup.upkeep.times,
            ahead: setup.upkeep.ahead,
            away: 0,
            copy: None,
        }
    }

    /// The server's time as its record uses it. The wall clock does not advance unless a run needs
    /// it: the floor that it gives to tokens would hide errors.
    fn now(&self, setup: &Setup) -> Now {
        let mut wall_us = if setup.upkeep.reads_clock() { self.wall_us() } else { 0 };
        if setup.bug == Some(Bug::BlocksWithoutBound) {
            wall_us = wall_us.max(self.server.record.top().map_or(0, Token::get));
        }
        Now { wall_ns: wall_us * 1000, ..at(self.server_time) }
    }

    /// The attempt that owns a lease which has not ended, and the lease's first token.
    pub(super) fn holder(&self) -> Option<(AttemptId, u64)> {
        self.server.holder(at(self.server_time))
    }

    /// The server carries out a call and pushes what is to be pushed; the answer is returned.
    ///
    /// The answer to a release arrives at once, unless it is lost: all that a delay would do is to
    /// let the client repeat it, and a repetition is among the faults.
    pub(super) fn serve(&mut self, setup: &Setup, from: u8, sent: u8, call: Call) -> Message {
        let answer = self.carry_out(setup, |server, now, reach| match call {
            Call::Acquire(attempt) => {
                let answer = told(setup, server.acquire(setup, now, attempt, reach));
                (Answered::Acquired(attempt, answer), None)
            }
            Call::Renew(attempt, base) => {
                let renewed = server.renew(setup, now, attempt, base);
                (Answered::Renewed(attempt, base, renewed), None)
            }
            Call::Release(release) => {
                let verdict = server.release(setup, now, release, reach);
                (Answered::Ended(release.attempt), Some((release, verdict)))
            }
            Call::Rotate(release, next) => {
                let (verdict, answer) = server.rotate(setup, now, release, next, reach);
                let answer = told(setup, answer);
                (Answered::Exchanged(release.attempt, next, answer), Some((release, verdict)))
            }
        });
        let queued = matches!(
            answer,
            Answered::Acquired(_, Queued { .. }) | Answered::Exchanged(_, _, Queued { .. })
        );
        let at = if queued { self.server_time } else { 0 };
        Message::Reply { to: from, sent, at, answer }
    }

    /// The server carries out a step and pushes what is to be pushed; what became of leases is
    /// written down.
    pub(super) fn carry_out<T>(
        &mut self,
        setup: &Setup,
        step: impl FnOnce(&mut Server, Now, Reach<'_>) -> (T, Option<(ReleaseRequest, Verdict)>),
    ) -> T {
        let now = self.now(setup);
        let before = self.server.record.base().map(Token::get);
        let held = self.holder();
        if let Some(base) = before.filter(|_| held.is_none()) {
            self.history.ends(base, Fate::Lost);
        }
        let mut pushes = Vec::new();
        let clients = &self.clients;
        let mut reach = |attempt: AttemptId, push: Push| {
            let to = client_of(attempt);
            let listening = clients.get(usize::from(to)).is_some_and(Client::listens);
            if listening {
                pushes.push((to, attempt, push));
            }
            listening || setup.bug == Some(Bug::UnreachableIsNotSkipped)
        };
        let (answer, ending) = step(&mut self.server, now, &mut reach);
        if self.server.record.base().map(Token::get) != before
            && let Some((owner, ())) = self.server.record.owner()
            && !self.server.record.is_confirmed()
            && !clients.get(usize::from(client_of(owner))).is_some_and(Client::listens)
        {
            self.history.breaks(Broken::Unreached);
        }
        let (release, verdict) = ending.unzip();
        self.remember(before, held, release);
        if let (Some(release), Some(verdict)) = (release, verdict) {
            self.history.tells(release.base.map(Token::get), verdict);
        }
        for (to, attempt, push) in pushes {
            let at = if matches!(push, Push::Granted { .. }) { self.server_time } else { 0 };
            // A holder that passes nothing on inside its process, and keeps no lease, has no use for
            // `Wanted`; one that has gone has.
            if !matches!(push, Push::Wanted { .. }) || setup.silent || setup.caches {
                self.network.insert(Message::Push { to, attempt, at, push });
            }
        }
        answer
    }

    /// Writes down what became of the lease that was current before the step.
    fn remember(
        &mut self,
        before: Option<u64>,
        held: Option<(AttemptId, u64)>,
        release: Option<ReleaseRequest>,
    ) {
        let after = self.server.record.base().map(Token::get);
        let holds = self.holder().map(|(_, base)| base);
        if let Some((owner, base)) = held.filter(|(_, base)| holds != Some(*base)) {
            let by_owner = release.is_some_and(|release| release.attempt == owner);
            self.history.ends(base, if by_owner { Fate::Released } else { Fate::Lost });
        }
        if let Some(base) = after.filter(|_| after != before) {
            self.history.grants(base);
        }
        if let Some(release) = release {
            self.history.ended.insert(release.attempt);
        }
    }

    /// Takes out what can have no effect any more.
    pub(super) fn sweep(&mut self) {
        let clients = &self.clients;
        self.network.retain(|message| match message {
            Message::Request { .. } => true,
            Message::Reply { to, sent, answer, .. } => {
                clients.get(usize::from(*to)).is_some_and(|to| to.expects(*sent, answer))
            }
            Message::Push { to, .. } => clients.get(usize::from(*to)).is_some_and(|to| to.up),
        });
    }
}
