//! The connections: each serves one packet at a time, and none is reserved between two packets.
//!
//! If a connection breaks, its packet may be sent again on another connection, if a repetition has
//! no effect. The second reply then says nothing about the first.

mod transaction;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Now, random};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::address::{FileId, Target};
use crate::connection::{Connection, Reply};
use crate::dialect::Packet;
use crate::error::{Fault, What, sort, sort_connecting};

pub(crate) use self::transaction::Transaction;

/// A connection that was not used for this long is re-established: a device in between may have
/// dropped it silently.
const IDLE: Duration = Duration::from_secs(60);

/// No connection is kept longer than this: the host name may point to another server by then.
const LIFETIME: Duration = Duration::from_secs(600);

/// The longest pause before the next try; the file is free for moments only if a busy program
/// writes to it.
const LOCKED_PAUSE_US: u64 = 6_000;

/// A try takes less than this. There is no further try so near to the end of the limit: its
/// outcome would be unknown.
const LOCKED_TRY: Duration = Duration::from_millis(50);

/// How many new connections may break under a packet before it fails.
const AGAIN: u32 = 1;

/// The kind of a request, which decides how many connections it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// All but the few that are reserved for requests that must not wait.
    Usual,
    /// Renewals: they never wait for acquires.
    Renewal,
}

pub(crate) struct Pool {
    target: Target,
    idle: Mutex<Vec<Idle>>,
    usual: Semaphore,
    renewals: Semaphore,
    clock: Clock,
    #[cfg(test)]
    pub(crate) packets: std::sync::atomic::AtomicU64,
}

/// A connection that is not in use.
struct Idle {
    connection: Connection,
    made: Made,
    since: Now,
}

/// When a connection was made, and to which file, if it is a file.
#[derive(Clone, Copy)]
struct Made {
    at: Now,
    file: Option<FileId>,
}

/// A connection that is in use. If it is dropped, the connection closes: the database rolls back, or executes its packet
/// to the end.
struct Used<'a> {
    connection: Connection,
    made: Made,
    pool: &'a Pool,
    _permit: SemaphorePermit<'a>,
}

impl Used<'_> {
    /// Leaves the connection to the next packet.
    fn give(self) {
        self.pool.give(self.connection, self.made);
    }
}

/// The connections that are reserved for renewals.
const RENEWALS: usize = 2;

impl Pool {
    pub(crate) fn new(target: Target, size: usize, clock: Clock) -> Self {
        Self {
            target,
            idle: Mutex::default(),
            usual: Semaphore::new(size.saturating_sub(RENEWALS).max(1)),
            renewals: Semaphore::new(RENEWALS),
            clock,
            #[cfg(test)]
            packets: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Sends a packet and returns its replies, always within the limit.
    ///
    /// Sets `open` if the packet may have been carried out without a reply; then no error is
    /// certain.
    pub(crate) async fn run(
        &self,
        lane: Lane,
        packet: &Packet,
        until: Deadline,
        open: &mut bool,
    ) -> Result<Vec<Reply>, Fault> {
        let mut was_locked = false;
        let run = async {
            let (replies, used) =
                self.run_on_any(lane, packet, until, (open, &mut was_locked)).await?;
            used.give();
            Ok(replies)
        };
        let ran = match self.clock.within(Some(until), run).await {
            Some(ran) => ran,
            None => {
                *open = true;
                Err(Fault::late_behind_lock(was_locked))
            }
        };
        ran.map_err(|fault| if *open { fault.uncertain() } else { fault })
    }

    async fn run_on_any(
        &self,
        lane: Lane,
        packet: &Packet,
        until: Deadline,
        (open, was_locked): (&mut bool, &mut bool),
    ) -> Result<(Vec<Reply>, Used<'_>), Fault> {
        #[cfg(test)]
        self.packets.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let permits = match lane {
            Lane::Usual => &self.usual,
            Lane::Renewal => &self.renewals,
        };
        let Ok(permit) = permits.acquire().await else { return Err(Fault::late()) };
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
                    let mut opened =
                        Connection::open(&self.target).await.map_err(sort_connecting)?;
                    opened.expect_busy_file().await.map_err(sort_connecting)?;
                    if self.target.is_empty_file() {
                        opened.write_ahead().await;
                    }
                    let at = self.clock.now();
                    // A file that did not exist before is not a replacement.
                    (opened, Made { at, file: file.or_else(|| self.target.file()) })
                }
            };
            // If this is dropped, the connection closes, and the database rolls back.
            match connection.run(&packet.text).await {
                Ok(mut replies) => {
                    replies.drain(..packet.skip.min(replies.len()));
                    return Ok((replies, Used { connection, made, pool: self, _permit: permit }));
                }
                Err(error) => {
                    let fault = sort(error);
                    if fault.what != What::Broken {
                        if connection.roll_back().await.is_ok() {
                            self.give(connection, made);
                        }
                        let left = until.remaining(self.clock.now());
                        if fault.what == What::Locked && self.target.is_file() && left > LOCKED_TRY
                        {
                            *was_locked = true;
                            let pause = random::fresh() % LOCKED_PAUSE_US;
                            self.clock.sleep(Duration::from_micros(pause)).await;
                            continue;
                        }
                        return Err(fault);
                    }
                    // It may have broken while it was idle, and the others with it.
                    self.lock().clear();
                    let certain = fault.error.kind().is_certain();
                    *open |= !certain;
                    failed += u32::from(!old);
                    // Another connection would report the same certain error as a new one.
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

    /// Returns when the connection of a packet was made, after each of some pauses.
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
        assert_ne!(idle[0], idle[1], "an idle connection may have broken silently");
    }
}
