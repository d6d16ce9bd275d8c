//! One run of `contention`: starts the processes, measures a window, and reads their reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::judge;
use super::report::{Outcome, Report};
use super::{Case, Times};
use crate::Result;
use crate::store::StoreAddress;
use crate::system::{cpu_time_of, cpu_time_of_all};
use crate::talk::Talk;

/// The judge's file; goes when this is dropped. In memory where there is such a place.
#[derive(Debug)]
struct Door(PathBuf);

impl Door {
    fn new() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let path = folder.join(format!("leasehold-bench-judge-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).open(&path)?;
        std::io::Write::write_all(&mut file, &[0; judge::LENGTH])?;
        Ok(Self(path))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
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

/// Runs a case once.
pub(super) fn once(case: &Case, again: &[&str], times: Times) -> Result<Outcome> {
    let place = case.store.place()?;
    let (door, name) = (Door::new()?, place.name(1));
    let mut processes = Vec::new();
    for process in 1..=case.shape.processes {
        let words = [
            "contention".to_owned(),
            case.runtime.name().to_owned(),
            case.shape.tasks.to_string(),
            case.subject.lock().to_owned(),
            case.hold.as_micros().to_string(),
            name.clone(),
            door.0.display().to_string(),
            process.to_string(),
        ];
        let mut talk = case.subject.start(&words, again)?;
        talk.say(&place.url)?;
        processes.push(talk);
    }
    all(&mut processes, |process| process.expect("ready"))?;
    all(&mut processes, |process| process.say("begin"))?;
    sleep(times.warm_up);
    #[cfg(feature = "servers")]
    let mut watch = super::statistics::Watch::open(&place, &name, case)?;
    let (start, before) = (Instant::now(), cpu(&processes, &place)?);
    all(&mut processes, |process| process.say("mark"))?;
    while start.elapsed() < times.window {
        sleep(Duration::from_millis(50).min(times.window - start.elapsed().min(times.window)));
        #[cfg(feature = "servers")]
        watch.look()?;
    }
    all(&mut processes, |process| process.say("enough"))?;
    let (window, after) = (start.elapsed(), cpu(&processes, &place)?);
    #[cfg(feature = "servers")]
    let seen = watch.close()?;
    all(&mut processes, |process| process.say("end"))?;
    let mut reports = Vec::new();
    for process in &mut processes {
        reports.push(serde_json::from_str::<Report>(&process.hear()?)?);
    }
    for process in processes {
        process.end()?;
    }
    Ok(Outcome {
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
