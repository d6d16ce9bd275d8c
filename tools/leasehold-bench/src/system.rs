//! What the system is asked for: CPU time, memory, descriptors.

use std::time::Duration;

use crate::Result;

/// CPU time of this process until now, user and system.
#[cfg(unix)]
pub(crate) fn cpu_time() -> Result<Duration> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(
            value.tv_sec().try_into().unwrap_or_default(),
            u32::try_from(value.tv_usec()).unwrap_or_default() * 1000,
        )
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// How often the kernel has taken a processor from a thread of this process until now, because the thread waited or for another one.
#[cfg(unix)]
pub(crate) fn switches() -> Result<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    Ok(switches.try_into().unwrap_or_default())
}

/// The same for the threads that another process has now; `None` where the system does not say.
#[cfg(feature = "servers")]
pub(crate) fn switches_of(pid: u32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
        Some(counts.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum::<u64>())
    };
    Some(threads.filter_map(of_thread).sum())
}

/// How often the kernel has taken a processor from a thread of this process until now.
#[cfg(not(unix))]
pub(crate) fn switches() -> Result<u64> {
    Err("context switches are counted on Unix alone".into())
}

/// CPU time of this process until now, user and system.
#[cfg(not(unix))]
pub(crate) fn cpu_time() -> Result<Duration> {
    Err("CPU time is measured on Unix alone".into())
}

/// CPU time of another process until now, user and system, to the nanosecond.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_time_of(pid: u32) -> Result<Duration> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid)?);
    let read = nix::time::ClockId::pid_cpu_clock_id(pid).and_then(nix::time::ClockId::now);
    read.map(Duration::from).map_err(|error| format!("CPU time of process {pid}: {error}").into())
}

/// CPU time of another process until now, user and system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_time_of(_pid: u32) -> Result<Duration> {
    Err("CPU time of other processes is measured on Linux alone".into())
}

/// CPU time of several processes together; `None` when there are none.
pub(crate) fn cpu_time_of_all(pids: &[u32]) -> Result<Option<Duration>> {
    let mut sum = None;
    for pid in pids {
        sum = Some(sum.unwrap_or_default() + cpu_time_of(*pid)?);
    }
    Ok(sum)
}

/// Resident memory of this process, in bytes.
#[cfg(unix)]
pub(crate) fn resident() -> Result<u64> {
    resident_in("/proc/self/statm")
}

/// Resident memory of another process, in bytes.
#[cfg(all(unix, feature = "servers"))]
pub(crate) fn resident_of(pid: u32) -> Result<u64> {
    resident_in(&format!("/proc/{pid}/statm"))
}

#[cfg(unix)]
fn resident_in(file: &str) -> Result<u64> {
    use nix::unistd::{SysconfVar, sysconf};
    let text = std::fs::read_to_string(file).map_err(|error| {
        format!("cannot read {file}, memory is measured on Linux alone: {error}")
    })?;
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let page = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|size| u64::try_from(size).ok());
    match (pages, page) {
        (Some(pages), Some(page)) => Ok(pages * page),
        _ => Err(format!("{file} says {text:?}").into()),
    }
}

/// Resident memory of this process, in bytes.
#[cfg(not(unix))]
pub(crate) fn resident() -> Result<u64> {
    Err("memory is measured on Linux alone".into())
}

/// Raises the limit of open files as far as it goes, for this process and its children, and says
/// what it is now.
#[cfg(unix)]
pub(crate) fn descriptors() -> Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let raised = soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    Ok(if raised { hard } else { soft })
}

/// What the limit of open files is.
#[cfg(not(unix))]
pub(crate) fn descriptors() -> Result<u64> {
    Ok(u64::MAX)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time_and_what_is_written_to_is_resident() {
        let (time, memory) = (cpu_time().unwrap(), resident().unwrap());
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(resident().unwrap() >= memory + (32 << 20));
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(sum, 64 << 20);
        assert!(cpu_time().unwrap() > time);
        assert!(cpu_time_of(std::process::id()).unwrap() > time);
        assert!(cpu_time_of(4_194_305).unwrap_err().to_string().contains("4194305"));
    }
}
