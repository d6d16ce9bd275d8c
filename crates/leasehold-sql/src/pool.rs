//! The connections: each serves one packet at a time, and none is kept between two.
//!
//! A packet may be sent again on another connection when its own breaks, if it does nothing when it
//! is done a second time. What the second says is then no word about the first.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Now};
use tokio::sync::Semaphore;

use crate::address::{FileId, Target};
use crate::connection::{Connection, Reply};
use crate::dialect::Packet;
use crate::error::{Fault, What, sort, sort_connecting};

/// A connection that has not been used for so long is made anew: what lies between may have
/// forgotten it without a word.
const IDLE: Duration = Duration::from_secs(60);

/// No connection is kept for longer: what its name stands for may have moved.
const LIFETIME: Duration = Duration::from_secs(600);

/// New connections that may break under a packet before it is given up.
const AGAIN: u32 = 1;

/// Who may use how many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// All but the few that are kept for what must not wait.
    Usual,
    /// Renewals: they never wait for those who ask.
    Renewal,
}

pub(crate) struct Pool {
    target: Target,
    idle: Mutex<Vec<Idle>>,
    usual: Semaphore,
    renewals: Semaphore,
    clock: Clock,
}

/// A connection that nobody uses.
struct Idle {
    connection: Connection,
    made: Made,
    since: Now,
}

/// When a connection was made, and to which file, where it is one.
#[derive(Clone, Copy)]
struct Made {
    at: Now,
    file: Option<FileId>,
}

/// Connections for renewals.
const RENEWALS: usize = 2;

impl Pool {
    pub(crate) fn new(target: Target, size: usize, clock: Clock) -> Self {
        Self {
            target,
            idle: Mutex::default(),
            usual: Semaphore::new(size.saturating_sub(RENEWALS).max(1)),
            renewals: Semaphore::new(RENEWALS),
            clock,
        }
    }

    /// Sends a packet and gives its replies; within the limit, whatever happens.
    ///
    /// `open` becomes true when it may have been carried out without a word of it; then no error is
    /// a certain one.
    pub(crate) async fn run(
        &self,
        lane: Lane,
        packet: &Packet,
        until: Deadline,
        open: &mut bool,
    ) -> Result<Vec<Reply>, Fault> {
        let run = self.run_on_any(lane, packet, open);
        let ran = match self.clock.within(Some(until), run).await {
            Some(ran) => ran,
            None => {
                *open = true;
                Err(Fault::late())
            }
        };
        ran.map_err(|fault| if *open { fault.uncertain() } else { fault })
    }

    async fn run_on_any(
        &self,
        lane: Lane,
        packet: &Packet,
        open: &mut bool,
    ) -> Result<Vec<Reply>, Fault> {
        let permits = match lane {
            Lane::Usual => &self.usual,
            Lane::Renewal => &self.renewals,
        };
        let Ok(_permit) = permits.acquire().await else { return Err(Fault::late()) };
        let mut failed = 0;
        loop {
            let idle = self.take();
            let old = idle.is_some();
            let (mut connection, made) = match idle {
                Some(idle) => (idle.connection, idle.made),
                None => {
                    let file = self.target.file();
                    #[cfg(all(unix, feature = "sqlite"))]
                    self.target.make_file();
                    let opened = Connection::open(&self.target).await.map_err(sort_connecting)?;
                    let at = self.clock.now();
                    // One that was not there before is not another.
                    (opened, Made { at, file: file.or_else(|| self.target.file()) })
                }
            };
            // Dropped in the middle, the connection is closed, and the database ends what it began.
            match connection.run(&packet.text).await {
                Ok(mut replies) => {
                    self.give(connection, made);
                    replies.drain(..packet.skip.min(replies.len()));
                    return Ok(replies);
                }
                Err(error) => {
                    let fault = sort(error);
                    if fault.what != What::Broken {
                        if connection.roll_back().await.is_ok() {
                            self.give(connection, made);
                        }
                        return Err(fault);
                    }
                    // It may have died while it was not used, and the others with it.
                    self.lock().clear();
                    let certain = fault.error.kind().is_certain();
                    *open |= !certain;
                    failed += u32::from(!old);
                    // What a new connection says for certain, another one would say too.
                    if failed > AGAIN || (certain && !old) || (packet.once && *open) {
                        return Err(fault);
                    }
                }
            }
        }
    }

    fn take(&self) -> Option<Idle> {
        let (now, file) = (self.clock.now(), self.target.file());
        let below = |limit: Duration, from: Now| {
            u128::from(now.steady_ns.saturating_sub(from.steady_ns)) < limit.as_nanos()
        };
        let mut idle = self.lock();
        idle.retain(|idle| {
            let Made { at, file: made_to } = idle.made;
            below(IDLE, idle.since) && below(LIFETIME, at) && made_to == file
        });
        idle.pop()
    }

    fn give(&self, connection: Connection, made: Made) {
        let since = self.clock.now();
        self.lock().push(Idle { connection, made, since });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("idle", &self.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "sqlite"))]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use leasehold_core::StoreUrl;
    use leasehold_core::clock::ManualClock;

    use super::*;
    use crate::address::Address;
    use crate::dialect::Dialect;

    /// When the connection was made that a packet went over, after each of some pauses.
    async fn made_after(pause: Duration, times: usize) -> Vec<Now> {
        let place = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", place.path().join("locks.db").display());
        let address = Address::parse(StoreUrl::parse(&url).unwrap()).unwrap();
        let time = ManualClock::new();
        let pool = Pool::new(address.target, address.pool, time.clock());
        let packet = Dialect::Sqlite.plain(&["SELECT 1".to_owned()]);
        let mut made = Vec::new();
        for _ in 0..times {
            let until = Deadline::after(time.clock().now(), Duration::from_secs(60));
            pool.run(Lane::Usual, &packet, until, &mut false).await.unwrap();
            let idle: Vec<Now> = pool.lock().iter().map(|idle| idle.made.at).collect();
            assert_eq!(idle.len(), 1);
            made.extend(idle);
            time.advance(pause);
        }
        made
    }

    #[tokio::test]
    async fn no_connection_is_kept_for_long() {
        let used = made_after(Duration::from_secs(50), 13).await;
        assert!(used[..12].iter().all(|made| *made == used[0]), "{used:?}");
        assert_ne!(used[12], used[0], "a name may have moved to another server");
        let idle = made_after(Duration::from_secs(60), 2).await;
        assert_ne!(idle[0], idle[1], "what was not used may have died without a word");
    }
}
