//! A peer's program does it, and says how far it has come when it is asked.

use std::time::{Duration, Instant};

use super::Names;
use super::load::{Sample, Times};
use crate::Result;
use crate::measure::Spent;
use crate::peers::Built;
use crate::runtime::Flavour;
use crate::store::StoreAddress;
use crate::system::{cpu_time_of, cpu_time_of_all, switches_of};

/// Runs it once, with so many tasks.
pub(super) fn measure(
    built: &Built,
    place: &StoreAddress,
    runtime: Flavour,
    tasks: usize,
    names: Names,
    times: Times,
) -> Result<Sample> {
    let names = if names == Names::Reused { "reused" } else { "fresh" };
    let words = ["pairs", runtime.name(), &tasks.to_string(), names, &place.prefix];
    let mut talk = built.start(&words.map(String::from))?;
    talk.say(&place.urls())?;
    talk.expect("ready")?;
    std::thread::sleep(times.warm_up.max(built.warm_up()));
    let mut switches = Vec::new();
    let mut look = || -> Result<(Instant, u64, Duration, Option<Duration>)> {
        talk.say("count")?;
        let pairs = talk.hear()?.parse()?;
        let servers = cpu_time_of_all(place.server_pids())?;
        switches.extend(switches_of(talk.pid()));
        Ok((Instant::now(), pairs, cpu_time_of(talk.pid())?, servers))
    };
    let before = look()?;
    std::thread::sleep(times.window);
    let after = look()?;
    talk.end()?;
    let spent = Spent {
        time: after.0 - before.0,
        cpu: after.2.saturating_sub(before.2),
        switches: switches
            .first()
            .zip(switches.last())
            .map(|(before, after)| after.saturating_sub(*before)),
        server: after.3.zip(before.3).map(|(after, before)| after.saturating_sub(before)),
    };
    Ok(Sample::of(after.1 - before.1, &spent))
}
