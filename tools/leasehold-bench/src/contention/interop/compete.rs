//! Two processes of each side compete. Now and then one of each is killed and replaced, if possible while it holds.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::stage::{Process, Stage, Who};
use super::{Row, Side};
use crate::Result;
use crate::measure::percentile;
use crate::peers::Built;
use crate::table::separated;

pub(super) const HEAD: &str = "| lock of the other library | version | `wire` | time | held by it | held by ours | \
                               its wait, median | ours | killed | two at once |";

const TASKS: u32 = 2;
const HOLD: Duration = Duration::from_micros(500);
/// A lock that a killed process held is free after that time.
const TTL: Duration = Duration::from_secs(10);
/// In a short run it is a third of the time.
const BETWEEN_KILLS: Duration = Duration::from_secs(20);
/// How long is waited for a process to kill that is inside.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn play(peer: &Built, time: Duration, again: &[&str]) -> Result<Row> {
    let mut stage = Stage::new(peer, TTL, again)?;
    let whose = [Who::Theirs(peer.lock), Who::Wire];
    let mut sides = [Vec::new(), Vec::new()];
    for (who, processes) in whose.iter().zip(&mut sides) {
        for _ in 0..2 {
            processes.push(stage.start(*who, TASKS, HOLD)?);
        }
    }
    sides.iter_mut().flatten().try_for_each(Process::ready)?;
    sides.iter_mut().flatten().try_for_each(Process::begin)?;
    let began = Instant::now();
    let between = BETWEEN_KILLS.min(time / 3);
    let (mut killed, mut first) = (0, 0);
    while began.elapsed() + between < time {
        sleep(between);
        // After the first one the lock may have no holder, until it expires.
        first = 1 - first;
        for at in [first, 1 - first] {
            kill_inside(&stage, &mut sides[at])?;
            killed += 1;
            let mut next = stage.start(whose[at], TASKS, HOLD)?;
            next.ready()?;
            next.begin()?;
            sides[at].push(next);
        }
    }
    sleep(time.saturating_sub(began.elapsed()));
    let [theirs, ours] = sides.map(report);
    let (theirs, ours) = (theirs?, ours?);
    let (overlaps, fallen) = stage.notes()?;
    let shown = |number: u64| separated(&number.to_string());
    let cells = vec![
        format!("{} s", time.as_secs()),
        shown(theirs.held),
        shown(ours.held),
        median(&theirs),
        median(&ours),
        shown(killed),
        if overlaps == 0 { "never".to_owned() } else { shown(overlaps) },
    ];
    let is_kept = overlaps == 0 && fallen == 0 && ours.held > 0 && theirs.held > 0;
    let (ours, theirs) = (ours.counts(), theirs.counts());
    let fault = format!(
        "not excluded, or starved: two at once {overlaps}, tokens that fell {fallen}; ours {ours}; theirs {theirs}"
    );
    Ok(Row { cells, fault: (!is_kept).then_some(fault) })
}

/// Kills one of these processes; while it is inside, if one is within a second.
fn kill_inside(stage: &Stage<'_>, processes: &mut Vec<Process>) -> Result<()> {
    let asked = Instant::now();
    let at = loop {
        let inside = stage.entered_last()?;
        match processes.iter().position(|process| process.number == inside) {
            Some(at) => break at,
            None if asked.elapsed() > LOOK => break 0,
            None => sleep(Duration::from_micros(200)),
        }
    };
    processes.swap_remove(at).kill();
    Ok(())
}

fn report(mut processes: Vec<Process>) -> Result<Side> {
    processes.iter_mut().try_for_each(Process::enough)?;
    let mut side = Side::default();
    for process in processes {
        side.add(process.report()?);
    }
    Ok(side)
}

fn median(side: &Side) -> String {
    let mut waits = side.waits_us.clone();
    waits.sort_unstable();
    percentile(&waits, 0.5).map_or("-".into(), |us| format!("{:.1} ms", us as f64 / 1e3))
}
