//! Eight processes that want one lock move from another library to ours, one after the other: `wire`, `also`, no option.

use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_test_servers::Value;

use super::stage::{NAME, Process, Stage, Who};
use super::{Row, Side};
use crate::Result;
use crate::peers::Built;
use crate::table::separated;

pub(super) const HEAD: &str = "| lock of the other library | version | `wire`, `also` | turns of the library | \
                               with `wire` | with `also` | without an option | two at once |";

const PROCESSES: usize = 8;
const TTL: Duration = Duration::from_secs(5);
/// Long enough for who looks at the file every millisecond.
const HOLD: Duration = Duration::from_millis(5);
/// The mark of clients with `wire` lasts for five minutes.
const MARK: Duration = Duration::from_secs(420);

/// Whether its clients have one Redis server, where the moment of the last step can be seen.
pub(super) fn is_for(peer: &Built) -> bool {
    peer.engine() == "redis" && peer.servers() == 1
}

pub(super) fn play(peer: &Built, again: &[&str]) -> Result<Row> {
    let mut stage = Stage::new(peer, TTL, again)?;
    let mut sides = [(); 4].map(|()| Side::default());
    let [library, wire, both, native] = &mut sides;
    let mut fleet = Vec::new();
    for _ in 0..PROCESSES {
        fleet.push(stage.start(Who::Theirs(peer.lock), 1, HOLD)?);
    }
    fleet.iter_mut().try_for_each(Process::ready)?;
    fleet.iter_mut().try_for_each(Process::begin)?;
    for (who, side) in [(Who::Wire, library), (Who::Also, wire), (Who::Native, both)] {
        if who == Who::Native {
            until_native(&stage)?;
        }
        for process in &mut fleet {
            let mut new = stage.start(who, 1, HOLD)?;
            new.ready()?;
            new.begin()?;
            stage.until_entered(&new)?;
            retire(std::mem::replace(process, new), side)?;
        }
    }
    for process in fleet {
        retire(process, native)?;
    }
    Ok(row(&sides, stage.notes()?))
}

/// A process of Java that ends may leave its lock behind, until its lease ends.
fn retire(mut process: Process, side: &mut Side) -> Result<()> {
    process.enough()?;
    side.add(process.report()?);
    Ok(())
}

/// Waits until the mark is gone, and clients with `also` have the native lock.
fn until_native(stage: &Stage<'_>) -> Result<()> {
    let server = stage.place.server().ok_or("no server of our own")?;
    let (record, asked) = (format!("leasehold:{{{NAME}}}"), Instant::now());
    loop {
        let begin = server.admin(&["GETRANGE", &record, "0", "1"])?;
        if matches!(&begin, Value::Bytes(begin) if begin.as_slice() == b"L1") {
            return Ok(());
        }
        if asked.elapsed() > MARK {
            return Err("the mark of clients with `wire` does not end".into());
        }
        sleep(Duration::from_millis(250));
    }
}

fn row(sides: &[Side; 4], (overlaps, fallen): (u64, u64)) -> Row {
    let shown = |number: u64| separated(&number.to_string());
    let mut cells: Vec<String> = sides.iter().map(|side| shown(side.held)).collect();
    cells.push(if overlaps == 0 { "never".to_owned() } else { shown(overlaps) });
    let is_kept = overlaps == 0 && fallen == 0 && sides.iter().all(|side| side.held > 0);
    let fault = sides.iter().map(Side::counts).collect::<Vec<_>>().join("; ");
    Row { cells, fault: (!is_kept).then_some(fault) }
}
