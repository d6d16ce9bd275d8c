//! The whole system at one moment, and the server's side of a step.

use std::collections::BTreeSet;

use leasehold_proto::handoff::Answer::Queued;
use leasehold_proto::handoff::{End, Push};
use leasehold_proto::{AttemptId, Token};

use super::server::Server;
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
}

/// The client that an attempt belongs to; ids are made by [`attempt`].
pub(super) fn client_of(attempt: AttemptId) -> u8 {
    attempt.to_bytes()[7]
}

/// The attempt number `sequence` of a client.
pub(super) fn attempt(client: u8, sequence: u32) -> AttemptId {
    AttemptId::new(leasehold_proto::ClientId::from_bits(u64::from(client)), sequence, 0)
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
        }
    }

    /// The server carries out a call and pushes what is to be pushed; the answer is returned.
    ///
    /// The answer to a release arrives at once, unless it is lost: all that a delay would do is to
    /// let the client repeat it, and a repetition is among the faults.
    pub(super) fn serve(&mut self, setup: &Setup, from: u8, sent: u8, call: Call) -> Message {
        let now = self.server_time;
        let before = self.server.record.base().map(Token::get);
        let held = self.server.holder(now);
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
        let server = &mut self.server;
        let mut ending = None;
        let answer = match call {
            Call::Acquire(attempt) => {
                Answered::Acquired(attempt, server.acquire(setup, now, attempt, &mut reach))
            }
            Call::Renew(attempt, base) => {
                Answered::Renewed(attempt, base, server.renew(setup, now, attempt, base))
            }
            Call::Release(end) => {
                ending = Some((end, server.release(setup, now, end, &mut reach)));
                Answered::Ended(end.attempt)
            }
            Call::Rotate(end, next) => {
                let (verdict, answer) = server.rotate(setup, now, end, next, &mut reach);
                ending = Some((end, verdict));
                match setup.line {
                    true => Answered::Exchanged(end.attempt, next, answer),
                    false => Answered::Acquired(next, answer),
                }
            }
        };
        if self.server.record.base().map(Token::get) != before
            && let Some((owner, ())) = self.server.record.owner()
            && !self.server.record.is_confirmed()
            && !clients.get(usize::from(client_of(owner))).is_some_and(Client::listens)
        {
            self.history.breaks(Broken::Unreached);
        }
        let (end, verdict) = ending.unzip();
        self.remember(before, held, end);
        if let (Some(end), Some(verdict)) = (end, verdict) {
            self.history.tells(end.base.map(Token::get), verdict);
        }
        for (to, attempt, push) in pushes {
            let at = if matches!(push, Push::Granted { .. }) { now } else { 0 };
            // A holder that passes nothing on inside its process has no use for `Wanted`; one
            // that has gone has.
            if !matches!(push, Push::Wanted { .. }) || setup.silent {
                self.network.insert(Message::Push { to, attempt, at, push });
            }
        }
        let queued = matches!(
            answer,
            Answered::Acquired(_, Queued { .. }) | Answered::Exchanged(_, _, Queued { .. })
        );
        let at = if queued { now } else { 0 };
        Message::Reply { to: from, sent, at, answer }
    }

    /// Writes down what became of the lease that was current before the step.
    fn remember(&mut self, before: Option<u64>, held: Option<(AttemptId, u64)>, end: Option<End>) {
        let after = self.server.record.base().map(Token::get);
        let holds = self.server.holder(self.server_time).map(|(_, base)| base);
        if let Some((owner, base)) = held.filter(|(_, base)| holds != Some(*base)) {
            let by_owner = end.is_some_and(|end| end.attempt == owner);
            self.history.ends(base, if by_owner { Fate::Released } else { Fate::Lost });
        }
        if let Some(base) = after.filter(|_| after != before) {
            self.history.grants(base);
        }
        if let Some(end) = end {
            self.history.ended.insert(end.attempt);
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
