//! The supervisor: the command's parent, which ends the whole process group before another holder
//! can get the lock, even if `leasehold` dies.
//!
//! It runs as a separate process (the same binary), in its own process group. It keeps copies of
//! the descriptors that keep the locks, if there are such, until it ends; the command inherits
//! neither those nor the socket. The command starts after `leasehold` has the report of its process group
//! (see [`crate::stage`]). End of file on the socket means that `leasehold` is dead: the supervisor
//! kills the group, and ends last. If the lease has a deadline, `leasehold` reports each change of
//! it; if `leasehold` itself is paused, the supervisor kills the group at the deadline.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use rustix::process::{WaitOptions, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::code;
use crate::ipc::{Report, receive_descriptors};
use crate::process_group::Group;
use crate::signals::Signals;
use crate::stage::Stage;
use crate::terminal::Terminal;
use crate::timer::{self, now_steady_ns};
use leasehold::Deadline;

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "__supervise";

/// Timers do not advance during suspend, so a deadline is checked again after this long.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How often an ending group is checked, besides each time a child ends.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The orders of `leasehold` to the supervisor, in its arguments.
#[derive(Debug)]
pub(crate) struct Orders {
    /// How long the rest of the group gets between TERM and KILL.
    pub(crate) kill_after: Duration,
    /// Put the command into the terminal's foreground.
    pub(crate) foreground: bool,
    /// The process group that gets the terminal back.
    pub(crate) home: Pid,
    /// The command and its arguments.
    pub(crate) command: Vec<OsString>,
}

impl Orders {
    /// Returns the arguments that [`parse`](Self::parse) reads.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let place = if self.foreground { "foreground" } else { "background" };
        let mut all: Vec<OsString> = vec![
            SUBCOMMAND.into(),
            self.kill_after.as_millis().to_string().into(),
            place.into(),
            self.home.to_string().into(),
        ];
        all.extend(self.command.iter().cloned());
        all
    }

    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut word = || arguments.next()?.into_string().ok();
        let kill_after = Duration::from_millis(word()?.parse().ok()?);
        let foreground = word()? == "foreground";
        let home = Pid::from_raw(word()?.parse().ok()?);
        Some(Self { kill_after, foreground, home, command: arguments.collect() })
    }
}

/// Runs the supervisor; `arguments` are those after the subcommand.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> u8 {
    // Use another name, so that `killall leasehold` does not kill the process that cleans up.
    let _ = prctl::set_name(c"lh-supervisor");
    // If this process is stopped when `leasehold` dies, the kernel continues it.
    let _ = prctl::set_pdeathsig(Signal::SIGCONT);
    let Some(orders) = Orders::parse(arguments) else { return code::OWN };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(supervise(&orders))) {
        Ok(()) => 0,
        Err(_) => code::OWN, // `leasehold` sees the end of file, and reports it.
    }
}

async fn supervise(orders: &Orders) -> io::Result<()> {
    // Catch the signals and ignore them: they are meant for `leasehold`. Do not ignore or block
    // them in the kernel, since the command would inherit that.
    let _deaf = Signals::catch()?;
    let mut child_changed = signal(SignalKind::child())?;
    prctl::set_child_subreaper(true)?;

    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut descriptors = receive_descriptors(&socket)?.into_iter();
    let stdin = descriptors.next().ok_or(io::ErrorKind::InvalidData)?;
    // Closed only by the end of this process.
    let _locks: Vec<OwnedFd> = descriptors.collect();
    socket.set_nonblocking(true)?;
    let mut socket = tokio::net::UnixStream::from_std(socket)?;

    let mut stage = match Stage::start(&orders.command) {
        Ok(stage) => stage,
        Err(error) => {
            let number = error.raw_os_error().unwrap_or_default();
            return socket.write_all(&Report::Failed(number).encode()).await;
        }
    };
    let group = Group(Pid::from_raw(stage.id()?));
    // Before the command runs: `leasehold` ends this group if the supervisor is killed.
    socket.write_all(&Report::Spawned(group.0.as_raw()).encode()).await?;
    let terminal = Terminal::open();
    if let (true, Some(terminal)) = (orders.foreground, &terminal) {
        terminal.give(group.0);
    }
    stage.go(stdin);

    let mut watch = Watch {
        stage,
        socket: Some(&mut socket),
        received: Vec::new(),
        group,
        ended: false,
        kill_at: None,
        deadline: None,
    };
    loop {
        watch.collect().await;
        if watch.ended && !group.is_alive() {
            watch.report(Report::Gone).await;
            break;
        }
        let next = watch.next_look(orders.kill_after);
        tokio::select! {
            _ = child_changed.recv() => {}
            word = hear(&mut watch.socket, &mut watch.received) => {
                if let Some(word) = word {
                    watch.deadline = Some(u64::from_be_bytes(word));
                    continue;
                }
                watch.socket = None;
                watch.kill_at = Some(timer::after(Duration::ZERO));
                // The process that waited for `leasehold` continues now, and may want to read.
                if let Some(terminal) = &terminal
                    && terminal.foreground() == Some(group.0)
                {
                    terminal.give(orders.home);
                }
            }
            () = timer::until(next) => {}
        }
    }
    Ok(())
}

/// The state of the group as the supervisor sees it.
struct Watch<'a> {
    stage: Stage,
    socket: Option<&'a mut tokio::net::UnixStream>,
    received: Vec<u8>,
    group: Group,
    /// The command itself has ended; other members of its group may be left.
    ended: bool,
    /// From when on the group is killed.
    kill_at: Option<Deadline>,
    /// When the group must have ended, in nanoseconds of the steady clock.
    deadline: Option<u64>,
}

impl Watch<'_> {
    /// Sends a report to `leasehold`; if that is dead, the end of file is seen next.
    async fn report(&mut self, report: Report) {
        if let Some(socket) = &mut self.socket {
            let _ = socket.write_all(&report.encode()).await;
        }
    }

    /// Collects all children that ended or stopped, adopted ones too.
    async fn collect(&mut self) {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = wait(options) {
            if pid.as_raw_nonzero().get() != self.group.0.as_raw() {
                continue;
            }
            let has_ended = status.stopping_signal().is_none();
            let report = if let (true, Some(number)) = (has_ended, self.stage.failure()) {
                Report::Failed(number)
            } else if let Some(code) = status.exit_status() {
                Report::Exited(code)
            } else if let Some(signal) = status.terminating_signal() {
                Report::Killed(signal)
            } else if let Some(signal) = status.stopping_signal() {
                Report::Stopped(signal)
            } else {
                continue;
            };
            self.ended |= !matches!(report, Report::Stopped(_));
            self.report(report).await;
        }
    }

    /// Returns when something is due; asks the rest of the group to end, once the command has
    /// ended.
    fn next_look(&mut self, kill_after: Duration) -> Option<Deadline> {
        let left = self.deadline.map(|at| Duration::from_nanos(at.saturating_sub(now_steady_ns())));
        if left.is_some_and(|left| left.is_zero()) {
            self.kill_at = Some(timer::after(Duration::ZERO));
        } else if self.kill_at.is_none() && self.ended {
            self.group.terminate();
            self.kill_at = Some(timer::after(kill_after));
        }
        match self.kill_at {
            Some(at) if timer::has_come(at) => {
                // Repeat until no member is left: a member may have been forking.
                self.group.signal(Signal::SIGKILL);
                Some(timer::after(LOOK_AGAIN))
            }
            Some(at) => Some(at.min(timer::after(LOOK_AGAIN))),
            None => left.map(|left| timer::after(left.min(LONGEST_SLEEP))),
        }
    }
}

/// Returns the next deadline that `leasehold` sends; `None` if it is dead. The future may be
/// dropped.
async fn hear(
    socket: &mut Option<&mut tokio::net::UnixStream>,
    received: &mut Vec<u8>,
) -> Option<[u8; 8]> {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        if let Some((word, _)) = received.split_first_chunk() {
            let word = *word;
            received.drain(..word.len());
            return Some(word);
        }
        let mut chunk = [0; 64];
        match socket.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => received.extend_from_slice(&chunk[..count]),
        }
    }
}
