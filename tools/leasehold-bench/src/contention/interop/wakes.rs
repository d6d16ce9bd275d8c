//! One process of each side wants the lock. How long is it free when it passes from one side to the other?

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::stage::{Process, Stage, Who};
use super::{Row, Side};
use crate::Result;
use crate::measure::percentile;
use crate::peers::Built;

pub(super) const HEAD: &str = "| lock of the other library | version | `wire` | time | turns changed | \
                               free before ours, median | longest | free before its own, median | longest |";

const TTL: Duration = Duration::from_secs(10);
/// Long enough for the other side to be waiting.
const HOLD: Duration = Duration::from_millis(100);
/// How often it is looked who is inside.
const LOOK: Duration = Duration::from_micros(500);

pub(super) fn play(peer: &Built, time: Duration, again: &[&str]) -> Result<Row> {
    let mut stage = Stage::new(peer, TTL, again)?;
    let mut sides =
        [stage.start(Who::Theirs(peer.lock), 1, HOLD)?, stage.start(Who::Wire, 1, HOLD)?];
    sides.iter_mut().try_for_each(Process::ready)?;
    // Ours leaves room for another library that held the lock lately.
    let [theirs, ours] = &mut sides;
    theirs.begin()?;
    stage.until_entered(theirs)?;
    ours.begin()?;
    let numbers = [sides[0].number, sides[1].number];
    let free = watch(&stage, numbers, time)?;
    let mut seen = Side::default();
    // Ours first: a program of another library that ends may give up the lock while it is inside.
    for mut process in sides.into_iter().rev() {
        process.enough()?;
        seen.add(process.report()?);
    }
    let changes: usize = free.iter().map(Vec::len).sum();
    let mut cells = vec![format!("{} s", time.as_secs()), changes.to_string()];
    let [before_its_own, before_ours] = &free;
    for gaps in [before_ours, before_its_own] {
        cells.extend([0.5, 1.0].map(|part| shown(gaps, part)));
    }
    let is_kept = stage.notes()? == (0, 0) && free.iter().all(|gaps| !gaps.is_empty());
    let fault = format!("not excluded, or never passed on: {changes} changes, {}", seen.counts());
    Ok(Row { cells, fault: (!is_kept).then_some(fault) })
}

/// The times in microseconds for which the lock was free before each of the two got it from the other.
fn watch(stage: &Stage<'_>, numbers: [u32; 2], time: Duration) -> Result<[Vec<u64>; 2]> {
    let mut free = [Vec::new(), Vec::new()];
    let began = Instant::now();
    let (mut inside, mut entered) = (stage.entry()?, began);
    while began.elapsed() < time {
        sleep(LOOK);
        let now = stage.entry()?;
        if now == inside {
            continue;
        }
        let at = Instant::now();
        if let Some(who) = numbers.iter().position(|number| *number == now.0)
            && inside.0 != 0
            && inside.0 != now.0
        {
            let gap = at.duration_since(entered).saturating_sub(HOLD);
            free[who].push(u64::try_from(gap.as_micros())?);
        }
        (inside, entered) = (now, at);
    }
    Ok(free)
}

fn shown(gaps: &[u64], part: f64) -> String {
    let mut gaps = gaps.to_vec();
    gaps.sort_unstable();
    percentile(&gaps, part).map_or("never".to_owned(), |us| format!("{:.1} ms", us as f64 / 1000.0))
}
