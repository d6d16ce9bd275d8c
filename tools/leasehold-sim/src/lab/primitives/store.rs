//! The server of a story: Leasehold's own records, or a counter by hand.

use std::time::Duration;

use leasehold_proto::handoff::{self, ReleaseRequest, Renewed};
use leasehold_proto::semaphore::{self, Demand};
use leasehold_proto::{AttemptId, Now, Token, TokenBlock, read_write};

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To read, together with others.
    Read,
    /// To write, alone.
    Write,
    /// One of a few permits.
    Permit,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Acquire(AttemptId),
    Renew(AttemptId, Token),
    Release(ReleaseRequest, Option<u32>),
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// A counter grants no tokens.
    Granted(Option<(TokenBlock, Option<u32>)>),
    Queued(Duration),
    Busy,
    Renewed(bool),
    /// The attempt has ended.
    Over,
}

/// A message without a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Push {
    Granted(TokenBlock, Option<u32>, Duration),
    Next(Duration),
}

/// Sends a push to the client of the attempt.
pub(super) type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push);

/// What is held, as the server sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// The phase of a read-write lock: what for, with which token, and how many hold it.
    pub(super) phase: Option<(Want, Option<u64>, u64)>,
    /// The slots of a semaphore: whose, with which token.
    pub(super) slots: Vec<Option<(u64, u64)>>,
    /// How many permits a counter has left.
    pub(super) left: Option<u32>,
}

/// The one lock or semaphore.
#[derive(Clone, Debug)]
pub(super) enum Store {
    /// By hand: the number of readers, and whether a client writes.
    Readers(u64, bool),
    /// By hand: how many permits are left.
    Left(u32),
    /// Leasehold's read-write lock.
    ReadWrite(Box<read_write::Record>),
    /// Leasehold's semaphore with its limit.
    Semaphore(Box<semaphore::Record>, u32),
}

impl Store {
    pub(super) fn by_readers() -> Self {
        Self::Readers(0, false)
    }

    pub(super) fn read_write() -> Self {
        Self::ReadWrite(Box::default())
    }

    pub(super) fn semaphore(limit: u32) -> Self {
        Self::Semaphore(Box::default(), limit)
    }

    /// Carries a request out.
    pub(super) fn carry_out(
        &mut self,
        now: Now,
        (call, want): (Call, Want),
        ttl: Duration,
        reach: Reach<'_>,
    ) -> Answer {
        match self {
            Self::Readers(readers, writes) => count_readers(readers, writes, call, want),
            Self::Left(left) => count_permits(left, call),
            Self::ReadWrite(record) => lock(record, now, (call, want), ttl, reach),
            Self::Semaphore(record, limit) => permit(record, *limit, now, call, ttl, reach),
        }
    }

    /// What is held now.
    pub(super) fn held(&self, now: Now) -> Held {
        match self {
            Self::Readers(_, true) => {
                Held { phase: Some((Want::Write, None, 1)), ..Held::default() }
            }
            Self::Readers(0, false) => Held::default(),
            Self::Readers(readers, false) => {
                Held { phase: Some((Want::Read, None, *readers)), ..Held::default() }
            }
            Self::Left(left) => Held { left: Some(*left), ..Held::default() },
            Self::ReadWrite(record) => {
                let want = match record.phase(now) {
                    read_write::Phase::Read => Want::Read,
                    read_write::Phase::Write => Want::Write,
                    read_write::Phase::Free | read_write::Phase::Kept => return Held::default(),
                };
                let holders = record.holders(now).count() as u64;
                Held {
                    phase: Some((want, record.base().map(Token::get), holders)),
                    ..Held::default()
                }
            }
            Self::Semaphore(record, limit) => {
                let mut slots = vec![None; *limit as usize];
                for holder in record.holders(now) {
                    let token = holder.permit.tokens.base().get();
                    for slot in &holder.permit.slots {
                        slots[*slot as usize] = Some((client(holder.attempt), token));
                    }
                }
                Held { slots, ..Held::default() }
            }
        }
    }

    /// When the next lease ends at the server.
    pub(super) fn next_end(&self, now: Now) -> Option<u64> {
        match self {
            Self::Readers(..) | Self::Left(_) => None,
            Self::ReadWrite(record) => record.holders(now).map(|holder| holder.until_ns).min(),
            Self::Semaphore(record, _) => {
                let until = |left: Duration| now.steady_ns + left.as_nanos() as u64;
                record.holders(now).map(|holder| until(holder.remaining)).min()
            }
        }
    }
}

/// Whose attempt it is.
pub(super) fn client(attempt: AttemptId) -> u64 {
    (u128::from_be_bytes(attempt.to_bytes()) >> 64) as u64
}

/// The usual counter of readers: it does not know who they are, nor that a writer waits.
fn count_readers(readers: &mut u64, writes: &mut bool, call: Call, want: Want) -> Answer {
    match (call, want) {
        (Call::Acquire(_), Want::Write) if *readers == 0 && !*writes => *writes = true,
        (Call::Acquire(_), Want::Read) if !*writes => *readers += 1,
        (Call::Acquire(_), _) => return Answer::Busy,
        (Call::Release(..), Want::Write) => *writes = false,
        (Call::Release(..), _) => *readers = readers.saturating_sub(1),
        (Call::Renew(..), _) => return Answer::Renewed(true),
    }
    Answer::Granted(None)
}

/// The usual counter of permits: acquire takes one off, release adds one.
fn count_permits(left: &mut u32, call: Call) -> Answer {
    match call {
        Call::Acquire(_) if *left == 0 => return Answer::Busy,
        Call::Acquire(_) => *left -= 1,
        Call::Release(..) => *left += 1,
        Call::Renew(..) => return Answer::Renewed(true),
    }
    Answer::Granted(None)
}

fn lock(
    record: &mut read_write::Record,
    now: Now,
    (call, want): (Call, Want),
    ttl: Duration,
    reach: Reach<'_>,
) -> Answer {
    let reach: handoff::Reach<'_> = &mut |attempt, push| {
        match push {
            handoff::Push::Granted { tokens, offer, .. } => {
                reach(attempt, Push::Granted(tokens, None, offer));
            }
            handoff::Push::Next { remaining, .. } => reach(attempt, Push::Next(remaining)),
            // A reader has its lease for itself, and no operator comes.
            handoff::Push::Wanted { .. } | handoff::Push::Lost { .. } => {}
        }
        true
    };
    match call {
        Call::Acquire(attempt) => {
            let mode = match want {
                Want::Write => read_write::Mode::Write,
                Want::Read | Want::Permit => read_write::Mode::Read,
            };
            let request = handoff::AcquireRequest {
                attempt,
                ttl,
                wait: true,
                fair: true,
                tokens: 1,
                tag: (),
            };
            let answer = record.acquire(now, mode, &request, reach);
            let ask_again = answer.ask_again().unwrap_or_default();
            match answer {
                read_write::Answer::Granted { tokens, .. } => Answer::Granted(Some((tokens, None))),
                read_write::Answer::Queued { .. } | read_write::Answer::Busy(_) => {
                    Answer::Queued(ask_again)
                }
                read_write::Answer::Ended | read_write::Answer::UsedUp => Answer::Over,
            }
        }
        Call::Renew(attempt, base) => {
            Answer::Renewed(record.renew(now, attempt, base, ttl, reach) != Renewed::Lost)
        }
        Call::Release(release, _) => {
            let _ = record.release(now, &release, reach);
            Answer::Over
        }
    }
}

fn permit(
    record: &mut semaphore::Record,
    limit: u32,
    now: Now,
    call: Call,
    ttl: Duration,
    reach: Reach<'_>,
) -> Answer {
    let reach: semaphore::Reach<'_> = &mut |attempt, push| {
        match push {
            semaphore::Push::Granted { permit, offer, .. } => {
                reach(attempt, Push::Granted(permit.tokens, permit.slots.first().copied(), offer));
            }
            semaphore::Push::Next { remaining } => reach(attempt, Push::Next(remaining)),
            // The limit stays what it is, and no operator comes.
            semaphore::Push::Refused { .. } | semaphore::Push::Lost { .. } => {}
        }
        true
    };
    match call {
        Call::Acquire(attempt) => {
            let Ok(demand) = Demand::new(1, limit) else { return Answer::Over };
            let request =
                semaphore::AcquireRequest { attempt, demand, ttl, wait: true, tokens: 1, tag: () };
            let answer = record.acquire(now, &request, reach);
            let ask_again = answer.ask_again().unwrap_or_default();
            match answer {
                semaphore::Answer::Granted(permit) => {
                    Answer::Granted(Some((permit.tokens, permit.slots.first().copied())))
                }
                semaphore::Answer::Queued { .. } | semaphore::Answer::Busy(_) => {
                    Answer::Queued(ask_again)
                }
                _ => Answer::Over,
            }
        }
        Call::Renew(attempt, base) => {
            Answer::Renewed(record.renew(now, attempt, base, ttl) != Renewed::Lost)
        }
        Call::Release(release, slot) => {
            let release = semaphore::ReleaseRequest::new(release, slot);
            let _ = record.release(now, &release, reach);
            Answer::Over
        }
    }
}
