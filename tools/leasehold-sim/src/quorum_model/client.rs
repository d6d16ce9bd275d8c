//! A client: it acquires, holds, renews and gives back, by the machine of `leasehold_proto`.

use leasehold_proto::quorum::{self, AttemptTerms, Event};
use leasehold_proto::{AttemptId, ClientId, Deadline, Token};

use super::{Bug, LIMIT, Setup, TTL, at};

/// The machine of an attempt, in which bugs are planted.
pub(super) type Attempt = quorum::Attempt<Option<quorum::Bug>>;

/// One client; it makes one attempt after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// The attempt that it drives. One that has ended is left alone: what it has sent may arrive.
    pub attempt: Option<Attempt>,
    /// How many it has begun.
    pub begun: u8,
    /// What the program holds, or believes to.
    pub guard: Option<Guard>,
    /// How often it may still renew.
    pub renewals: u8,
    /// The largest token that any client held when the current attempt began.
    pub floor: u64,
}

/// What a program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The attempt that it came from.
    pub attempt: AttemptId,
    /// Its token.
    pub token: Token,
    /// Until when the program believes in it.
    pub until: Deadline,
}

/// The id of a client's attempt.
pub(super) fn id(client: u8, number: u8) -> AttemptId {
    AttemptId::new(ClientId::from_bits(u64::from(client)), u32::from(number), 0)
}

impl Client {
    /// Begins an attempt that proposes `proposal`.
    pub(super) fn start(&mut self, setup: &Setup, client: u8, tick: u8, proposal: u8, floor: u64) {
        let connected = setup.bug == Some(Bug::MajorityOfConnected);
        let terms = AttemptTerms {
            attempt: id(client, self.begun),
            nodes: if connected { 1 } else { usize::from(setup.nodes) },
            ttl: TTL,
            limit: LIMIT,
            seen: u64::from(proposal) - 1,
        };
        self.begun += 1;
        self.floor = floor;
        self.renewals = setup.renewals;
        self.attempt =
            Some(Attempt::acquire_by(at(tick), terms, setup.bug.and_then(Bug::of_attempt)));
    }

    /// Reads the machine's events. A new guard's token is returned.
    pub(super) fn listen(&mut self, tick: u8) -> Option<Token> {
        let mut new = None;
        while let Some(event) = self.attempt.as_mut().and_then(Attempt::poll_event) {
            match event {
                Event::Held { token, until, .. } => {
                    let attempt = id_of(self.attempt.as_ref());
                    self.guard = attempt.map(|attempt| Guard { attempt, token, until });
                    new = Some(token);
                }
                Event::Renewed { until } => {
                    if let Some(guard) = &mut self.guard {
                        guard.until = until;
                    }
                }
                Event::Lost => {
                    self.guard = None;
                    if let Some(attempt) = &mut self.attempt {
                        attempt.release(at(tick));
                    }
                }
                Event::Released { .. } | Event::Denied(_) => self.guard = None,
                Event::NotRenewed => {}
            }
        }
        new
    }

    /// Whether the program believes that it holds the lock.
    pub fn is_valid(&self, tick: u8) -> bool {
        self.guard.is_some_and(|guard| !guard.until.has_passed(at(tick)))
    }
}

fn id_of(attempt: Option<&Attempt>) -> Option<AttemptId> {
    attempt.map(Attempt::id)
}
