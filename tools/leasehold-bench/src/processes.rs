//! Several processes that compete: starts them together, measures a window, and takes their reports.

#[cfg(feature = "servers")]
mod statistics;

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Result;
use crate::store::StoreAddress;
use crate::system::{cpu_time_of, cpu_time_of_all};
use crate::talk::Talk;

/// How long everything takes before it counts, and how long it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

impl Times {
    /// The window, and a warm-up: virtual machines need some time to get going.
    pub(crate) fn of(seconds: Option<u64>, quick: bool) -> Self {
        let seconds = seconds.unwrap_or(if quick { 1 } else { 3 });
        let warm_up = Duration::from_millis(if quick { 500 } else { 2000 });
        Self { warm_up, window: Duration::from_secs(seconds) }
    }
}

/// Who hold the lock or ask the server for it.
#[derive(Clone, Debug)]
pub(crate) enum Contenders {
    /// It is not looked at.
    #[cfg(feature = "servers")]
    Uncounted,
    /// As the code of a peer says, which has no queue.
    #[cfg(feature = "servers")]
    Known(usize),
    /// The holder, and those in this queue of a Redis server.
    Queued(#[cfg_attr(not(feature = "servers"), expect(dead_code))] String),
}

/// What there was in a window.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) window: Duration,
    /// What the processes said at the end.
    pub(crate) reports: Vec<String>,
    /// Of all processes.
    pub(crate) client_cpu: Duration,
    pub(crate) server_cpu: Option<Duration>,
    /// Commands that clients have sent, if the server is ours.
    pub(crate) commands: Option<f64>,
    /// Who stand before the server at a time, if it is ours.
    pub(crate) contenders: Option<f64>,
}

/// CPU time of all clients together, and of the server.
type Cpu = (Duration, Option<Duration>);

fn cpu(processes: &[Talk], place: &StoreAddress) -> Result<Cpu> {
    let mut clients = Duration::ZERO;
    for process in processes {
        clients += cpu_time_of(process.pid())?;
    }
    Ok((clients, cpu_time_of_all(place.server_pids())?))
}

/// Lets processes that were started just now compete, as `tools/peers/README.md` says.
pub(crate) fn compete(
    mut processes: Vec<Talk>,
    place: &StoreAddress,
    contenders: Contenders,
    times: Times,
) -> Result<Seen> {
    all(&mut processes, |process| process.say(&place.url))?;
    all(&mut processes, |process| process.expect("ready"))?;
    all(&mut processes, |process| process.say("begin"))?;
    sleep(times.warm_up);
    #[cfg(feature = "servers")]
    let mut watch = statistics::Watch::open(place, contenders)?;
    #[cfg(not(feature = "servers"))]
    let _ = contenders;
    let (start, before) = (Instant::now(), cpu(&processes, place)?);
    all(&mut processes, |process| process.say("mark"))?;
    while start.elapsed() < times.window {
        sleep(Duration::from_millis(50).min(times.window - start.elapsed().min(times.window)));
        #[cfg(feature = "servers")]
        watch.look()?;
    }
    all(&mut processes, |process| process.say("enough"))?;
    let (window, after) = (start.elapsed(), cpu(&processes, place)?);
    #[cfg(feature = "servers")]
    let seen = watch.close()?;
    all(&mut processes, |process| process.say("end"))?;
    let mut reports = Vec::new();
    for process in &mut processes {
        reports.push(process.hear()?);
    }
    for process in processes {
        process.end()?;
    }
    Ok(Seen {
        window,
        reports,
        client_cpu: after.0.saturating_sub(before.0),
        server_cpu: after.1.zip(before.1).map(|(after, before)| after.saturating_sub(before)),
        #[cfg(feature = "servers")]
        commands: seen.commands,
        #[cfg(not(feature = "servers"))]
        commands: None,
        #[cfg(feature = "servers")]
        contenders: seen.contenders,
        #[cfg(not(feature = "servers"))]
        contenders: None,
    })
}

fn all(processes: &mut [Talk], mut does: impl FnMut(&mut Talk) -> Result<()>) -> Result<()> {
    processes.iter_mut().try_for_each(&mut does)
}
