//! Runs plans of files, and makes them smaller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::check::{Evidence, Verdict};
use crate::run::{self, Order};
use crate::shrink::shrink as shrunk;
use crate::written::{What, Written};
use crate::{Result, now};

/// A candidate may have bad luck: it counts as kept only after so many runs.
const TRIES: u32 = 3;

/// The order that a plan gives.
pub(crate) fn order(written: Written, leasehold: PathBuf, journal: Option<PathBuf>) -> Order {
    let (mut kinds, mut operations) = (Vec::new(), Vec::new());
    for event in &written.events {
        match event.what {
            What::Fault(planned) if !kinds.contains(&planned.fault) => kinds.push(planned.fault),
            What::Command(planned) if !operations.contains(&planned.operation) => {
                operations.push(planned.operation);
            }
            _ => {}
        }
    }
    Order {
        seed: written.seed,
        setup: written.setup,
        time: written.time,
        clients: written.clients,
        tasks: written.tasks,
        kinds,
        operations,
        written: Some(written),
        leasehold,
        journal,
    }
}

/// What a run was, as a plan.
pub(crate) fn written(order: &Order, evidence: &Evidence) -> Written {
    Written {
        setup: order.setup,
        seed: order.seed,
        time: order.time,
        clients: order.clients,
        tasks: order.tasks,
        events: evidence.events.clone(),
    }
}

/// Where the plan of a run is kept: beside the journals, or else in a temporary directory, if a promise was broken.
pub(crate) fn place(order: &Order, is_kept: bool) -> Option<PathBuf> {
    let name = || format!("leasehold-chaos-{}-{}.plan", order.setup, order.seed);
    match (&order.journal, &order.written) {
        (Some(folder), _) => Some(folder.join("plan")),
        (None, None) if !is_kept => Some(std::env::temp_dir().join(name())),
        _ => None,
    }
}

/// Removes what a broken promise does not need, and writes what is left after each step. True when the whole
/// plan kept every promise.
pub(crate) fn shrink(whole: &Order, path: &Path, time: Duration) -> Result<bool> {
    let Some(plan) = &whole.written else { return Ok(true) };
    let end = now() + time.as_nanos() as u64;
    let Some(kind) = broken(whole, end)?.and_then(|broken| broken.into_iter().next()) else {
        println!("chaos: every promise was kept in {TRIES} runs of {}", path.display());
        return Ok(true);
    };
    println!("chaos: {kind}: removing what it does not need, for {} s at most", time.as_secs());
    let mut place = path.as_os_str().to_owned();
    place.push(".shrunk");
    let left = shrunk(&plan.events, |events| {
        if now() >= end {
            return Ok(None);
        }
        let smaller = plan.with(events);
        let order = order(smaller.clone(), whole.leasehold.clone(), None);
        let fails = broken(&order, end)?.is_some_and(|broken| broken.contains(&kind));
        let still = if fails { "still broken" } else { "kept" };
        println!("chaos: {} faults and commands: {still}", events.len());
        if fails {
            std::fs::write(&place, smaller.to_string())?;
        }
        Ok(Some(fails))
    })?;
    let (all, left) = (plan.events.len(), left.len());
    println!(
        "chaos: {left} of {all} faults and commands are left, in {}",
        Path::new(&place).display()
    );
    Ok(false)
}

/// The promises that a run breaks, without their figures; `None` if several runs keep all.
fn broken(order: &Order, end: u64) -> Result<Option<Vec<String>>> {
    for _ in 0..TRIES {
        let broken = Verdict::of(run::run(order)?).broken();
        if !broken.is_empty() {
            let kind = |one: String| one.split(':').next().unwrap_or_default().to_owned();
            return Ok(Some(broken.into_iter().map(kind).collect()));
        }
        if now() >= end {
            break;
        }
    }
    Ok(None)
}
