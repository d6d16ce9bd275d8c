//! Runs plans of files, and makes them smaller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::check::Verdict;
use crate::run::{self, Order};
use crate::shrink::shrink as shrunk;
use crate::written::{What, Written};
use crate::{Result, now};

/// A candidate may have bad luck: it counts as kept only after so many runs.
const TRIES: u32 = 3;
/// The words by which a violation is known again.
const WORDS: usize = 12;

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
        workload: written.workload,
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

/// Removes what a broken promise does not need, and writes what is left after each step. True when the whole
/// plan kept every promise.
pub(crate) fn shrink(whole: &Order, path: &Path, time: Duration) -> Result<bool> {
    let Some(plan) = &whole.written else { return Ok(true) };
    let end = now() + time.as_nanos() as u64;
    let Some(kinds) = broken(whole, end)? else {
        println!("chaos: every promise was kept in {TRIES} runs of {}", path.display());
        return Ok(true);
    };
    for kind in &kinds {
        println!("chaos: broken: {kind}");
    }
    println!("chaos: removing what none of that needs, for {} s at most", time.as_secs());
    let mut place = path.as_os_str().to_owned();
    place.push(".shrunk");
    let left = shrunk(&plan.events, |events| {
        if now() >= end {
            return Ok(None);
        }
        let smaller = plan.with(events);
        let order = order(smaller.clone(), whole.leasehold.clone(), None);
        let is_known = |broken: Vec<String>| broken.iter().any(|kind| kinds.contains(kind));
        let fails = broken(&order, end)?.is_some_and(is_known);
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

/// The promises that a run breaks, as another run of the plan says them too; `None` if several runs keep all.
fn broken(order: &Order, end: u64) -> Result<Option<Vec<String>>> {
    for _ in 0..TRIES {
        let broken = Verdict::of(run::run(order)?).broken();
        if !broken.is_empty() {
            let mut kinds: Vec<String> = broken.iter().map(|one| kind(one)).collect();
            kinds.sort_unstable();
            kinds.dedup();
            return Ok(Some(kinds));
        }
        if now() >= end {
            break;
        }
    }
    Ok(None)
}

/// The words of a violation that another run of the plan has too: without numbers, and what is made of them. No more than
/// the first ones, since an answer of a server may follow.
fn kind(violation: &str) -> String {
    let is_number = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    let words = violation.split_whitespace().take(WORDS);
    let words = words.map(|word| if is_number(word) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_the_same_in_another_run_with_other_figures() {
        for (one, other) in [
            ("overlaps against the promise: 3", "overlaps against the promise: 17"),
            ("client 3 waits in vain, 60 s after", "client 12 waits in vain, 60 s after"),
            ("node 0 votes 3876 ms after it was", "node 2 votes 12 ms after it was"),
            (
                "client 3: the guard with token 17 did not",
                "client 4: the guard with token 9 did not",
            ),
        ] {
            assert_eq!(kind(one), kind(other));
        }
        assert_ne!(kind("client 3 waits in vain"), kind("client 3 has ended: 1"));
    }
}
