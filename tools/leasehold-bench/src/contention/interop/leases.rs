//! A process holds for ten leases while one of the other kind waits. Then the holder is killed, and the waiter must
//! get the lock.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::stage::{Stage, Who};
use super::{Row, Side};
use crate::Result;
use crate::peers::Built;

pub(super) const HEAD: &str = "| lock of the other library | version | `wire` | lease | it holds, ours waits | \
                               it is killed: ours has the lock after | ours holds, it waits | \
                               ours is killed: it has the lock after |";

const LEASES: u32 = 10;
/// Longer than any scene: a holder is killed before.
const FOR_EVER: Duration = Duration::from_secs(900);
const SHORTLY: Duration = Duration::from_micros(500);

/// What a scene in one direction has shown.
#[derive(Clone, Copy, Debug)]
struct Seen {
    leases: u32,
    /// From the kill on.
    freed: Duration,
}

pub(super) fn play(peer: &Built, again: &[&str]) -> Result<Row> {
    // A session of ZooKeeper's clients needs some ticks.
    let lease = Duration::from_secs(if peer.engine() == "zookeeper" { 6 } else { 4 });
    let (theirs, leases) = match peer.renewed() {
        Some(lock) => (lock, LEASES),
        None => (peer.lock, 0),
    };
    let hold = |holder, waiter, leases| {
        until_killed(Stage::new(peer, lease, again)?, holder, waiter, lease * leases)
            .map(|freed| Seen { leases, freed })
    };
    let (theirs_hold, ours_hold) = scope(|scope| {
        let theirs_hold = scope.spawn(|| hold(Who::Theirs(theirs), Who::Wire, leases));
        let ours_hold = hold(Who::Wire, Who::Theirs(peer.lock), LEASES);
        (theirs_hold.join().unwrap_or_else(|_| Err("the scene panicked".into())), ours_hold)
    });
    let cells = [theirs_hold?, ours_hold?].map(|Seen { leases, freed }| {
        let held = match leases {
            0 => "no renewal".to_owned(),
            leases => format!("{leases} leases"),
        };
        [held, format!("{:.1} s", freed.as_secs_f64())]
    });
    let mut row = vec![format!("{} s", lease.as_secs())];
    row.extend(cells.into_iter().flatten());
    Ok(Row { cells: row, fault: None })
}

/// Fails if the waiter ever has the lock while the holder lives. Returns how long it then takes.
fn until_killed(
    mut stage: Stage<'_>,
    holder: Who,
    waiter: Who,
    time: Duration,
) -> Result<Duration> {
    let mut holder = stage.start(holder, 1, FOR_EVER)?;
    let mut waiter = stage.start(waiter, 1, SHORTLY)?;
    holder.ready()?;
    waiter.ready()?;
    holder.begin()?;
    stage.until_entered(&holder)?;
    waiter.begin()?;
    let began = Instant::now();
    while began.elapsed() < time {
        if stage.entered_last()? != holder.number {
            return Err("the waiter got the lock before the holder's end".into());
        }
        sleep(Duration::from_millis(20));
    }
    holder.kill();
    let freed = stage.until_entered(&waiter)?;
    waiter.enough()?;
    let mut side = Side::default();
    side.add(waiter.report()?);
    // A waiter that was inside beside the holder has not written its number.
    match (stage.notes()?, side.held) {
        ((0, 0), 1..) => Ok(freed),
        _ => Err(format!("the waiter: {}", side.counts()).into()),
    }
}
