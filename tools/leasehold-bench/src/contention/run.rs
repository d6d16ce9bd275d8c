//! One run of `contention` or `semaphore`: starts the processes, and reads their reports.

use super::Case;
use super::door::Door;
use super::judge;
use super::report::{Outcome, Report};
use crate::Result;
use crate::processes::{Times, compete};

/// Runs a case once.
pub(super) fn once(case: &Case, again: &[&str], times: Times) -> Result<Outcome> {
    let place = case.store.place()?;
    let (door, name) = (Door::new(judge::LENGTH, case.limit.unwrap_or(1))?, place.name(1));
    let mut processes = Vec::new();
    for process in 1..=case.shape.processes {
        let mut words = vec![
            if case.limit.is_some() { "semaphore" } else { "contention" }.to_owned(),
            case.runtime.name().to_owned(),
            case.shape.tasks.to_string(),
            case.subject.lock().to_owned(),
            case.hold.as_micros().to_string(),
            name.clone(),
            door.path().display().to_string(),
            process.to_string(),
        ];
        words.extend(case.limit.map(|limit| limit.to_string()));
        processes.push(case.subject.start("contender", &words, again)?);
    }
    let seen = compete(processes, &place, case.contenders(&name), times)?;
    let reports = seen.reports.iter().map(|report| serde_json::from_str::<Report>(report));
    Ok(Outcome { reports: reports.collect::<std::result::Result<_, _>>()?, seen })
}
