//! What an observer of an election sees: each leader, and the times without one.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use leasehold_proto::Token;

use crate::backend::{is_a_latch, is_a_semaphore};
use crate::client::Client;
use crate::lock_changes::LockChanges;
use crate::{Holder, Name, Result, Retry, State, Status};

/// How soon the observer asks again when a leader has yet to say who it is, or its lease has just
/// ended.
const SOON: Duration = Duration::from_millis(20);

/// The leader of an election, as observers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The value of the candidate; `HOST/PID` if it has none.
    pub candidate: String,
    /// The fencing token of the term.
    pub token: Token,
    /// When the term began: milliseconds since the Unix epoch, by the clock of the store.
    pub since_unix_ms: Option<u64>,
}

/// The leaders of an election from now on, of [`Election::observe`](crate::Election::observe).
/// `None` stands for no leader. It is a `Stream`; [`next`](Self::next) needs no extension trait.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Leaders(Pin<Box<dyn Stream<Item = Option<Leader>> + Send>>);

/// The state of the stream.
struct Observer {
    client: Client,
    name: Name,
    every: Duration,
    changes: LockChanges,
    /// The first status, not reported yet.
    first: Option<Status>,
    /// What was reported last.
    last: Option<Option<Leader>>,
    /// How long the last seen state lasts at least, without a push.
    pause: Duration,
    /// The store could not be used at the last look.
    cut_off: bool,
}

impl Leader {
    /// Returns true if both show the same term. On a quorum, the time when it began depends on which
    /// nodes answer.
    pub fn is_same_term(&self, other: &Self) -> bool {
        self.token == other.token && self.candidate == other.candidate
    }

    /// Returns true if an observer that has seen the one sees a change in the other.
    fn differs(seen: Option<&Self>, now: Option<&Self>) -> bool {
        match (seen, now) {
            (Some(seen), Some(now)) => !seen.is_same_term(now),
            (seen, now) => seen.is_some() != now.is_some(),
        }
    }

    /// Returns the holder of a lock as the leader. A holder that the store does not know yet has not
    /// been granted the lock either.
    pub(crate) fn of(status: Status) -> Option<Self> {
        let Holder { host, pid, metadata, .. } =
            status.holder.filter(|_| status.state == State::Held)?;
        Some(Self {
            candidate: metadata.unwrap_or_else(|| format!("{host}/{pid}")),
            token: status.token?,
            since_unix_ms: status.since_unix_ms,
        })
    }
}

impl Leaders {
    pub(crate) async fn of(client: Client, name: Name, every: Duration) -> Result<Self> {
        // Before the look: a change after it is then never missed.
        let changes = LockChanges::of(&client, &name);
        let first = client.shared().backend.status(&name).await;
        let first =
            first.and_then(checked).map_err(|error| error.during("observe", Some(&name)))?;
        let first = Some(first);
        let (last, pause, cut_off) = (None, every, false);
        let observer = Observer { client, name, every, changes, first, last, pause, cut_off };
        let leaders = stream::unfold(observer, |mut observer| async move {
            let leader = observer.next().await?;
            Some((leader, observer))
        });
        Ok(Self(Box::pin(leaders)))
    }

    /// Waits for the next change. Returns `None` at the end of the stream. If the future is dropped,
    /// no change is lost.
    pub async fn next(&mut self) -> Option<Option<Leader>> {
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Leaders {
    type Item = Option<Leader>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaders").finish_non_exhaustive()
    }
}

impl Observer {
    /// Returns the next leader that differs from the last one.
    async fn next(&mut self) -> Option<Option<Leader>> {
        loop {
            if self.client.shared().is_closed() {
                return None;
            }
            let status = match self.first.take() {
                Some(status) => status,
                None => {
                    self.changes.within(self.pause).await;
                    match self.look().await? {
                        Some(status) => status,
                        None => continue,
                    }
                }
            };
            let is_held = status.state == State::Held;
            let ends = status.remaining.map(|left| left + SOON);
            let leader = Leader::of(status);
            self.pause = match is_held && leader.is_none() {
                true => SOON.min(self.every),
                false => ends.map_or(self.every, |ends| ends.min(self.every)),
            };
            let differs = |last: &Option<Leader>| Leader::differs(last.as_ref(), leader.as_ref());
            if self.last.as_ref().is_none_or(differs) {
                self.last = Some(leader.clone());
                return Some(leader);
            }
        }
    }

    /// Asks the store; returns `Some(None)` if it cannot be used now, and `None` if it refuses.
    async fn look(&mut self) -> Option<Option<Status>> {
        match self.client.shared().backend.status(&self.name).await {
            Ok(status) => {
                self.cut_off = false;
                Some(Some(status))
            }
            Err(error) if error.retry() == Retry::Useful => {
                if !self.cut_off {
                    tracing::warn!(name = %self.name, %error, "the leader may be outdated");
                }
                (self.cut_off, self.pause) = (true, self.every);
                Some(None)
            }
            Err(error) => {
                tracing::warn!(name = %self.name, %error, "the leader cannot be observed any more");
                None
            }
        }
    }
}

/// Refuses the status of a name that cannot have a leader.
pub(crate) fn checked(status: Status) -> Result<Status> {
    match status.state {
        _ if status.permits.is_some() => Err(is_a_semaphore()),
        // Also one of a newer version.
        State::Latch => Err(is_a_latch()),
        _ => Ok(status),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_latch_of_any_version_has_no_leader() {
        let name = Name::new("a").unwrap();
        for latch in [&b"leasehold latch 1\n1 1 1\n"[..], b"leasehold latch 9\n"] {
            let error = checked(Status::of_latch(&name, latch, None)).unwrap_err();
            assert!(error.message().contains("latch"), "{error}");
        }
        checked(Status::free(&name)).unwrap();
    }

    #[test]
    fn a_change_is_another_term_or_the_lack_of_one() {
        let leader = |candidate: &str, token, since| Leader {
            candidate: candidate.to_owned(),
            token: Token::new(token).unwrap(),
            since_unix_ms: Some(since),
        };
        let one = leader("one", 5, 7);
        for (same, other) in [
            (true, Some(leader("one", 5, 9))),
            (false, Some(leader("one", 6, 7))),
            (false, Some(leader("two", 5, 7))),
            (false, None),
        ] {
            assert_eq!(Leader::differs(Some(&one), other.as_ref()), !same, "{other:?}");
            assert_eq!(Leader::differs(other.as_ref(), Some(&one)), !same, "{other:?}");
        }
        assert!(!Leader::differs(None, None));
    }
}
