//! Handles a running command: signals in, reports out, the terminal, and the loss of the lock.

use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::time::sleep;

use leasehold::{Deadline, LossReason, Name};

use super::supervisor::Supervisor;
use crate::failure::{Failure, code};
use crate::ipc::Report;
use crate::lang::text;
use crate::on_lost::OnLost;
use crate::output::Voice;
use crate::process_group::Group;
use crate::signals::Signals;
use crate::store::Held;
use crate::terminal::{self, Terminal};
use crate::timer::{self, until};

/// How often a group whose supervisor was killed is checked until it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The bounds of how often to check whether a renewal has moved the deadline.
const SHORTEST_LOOK: Duration = Duration::from_millis(20);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// The most time before the end of a lease that is reserved for KILL.
const RESERVE: Duration = Duration::from_millis(50);

/// The exit code of a command that KILL has ended.
const KILLED: u8 = 128 + Signal::SIGKILL as u8;

/// A command that runs under the lock.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// The lock.
    pub(crate) held: &'a Held,
    /// The command's name, for messages.
    pub(crate) program: String,
    /// The incoming signals.
    pub(crate) signals: &'a mut Signals,
    /// The supervisor of the command.
    pub(crate) supervisor: Supervisor,
    /// The controlling terminal.
    pub(crate) terminal: Option<Terminal>,
    /// What to do when the lock is lost.
    pub(crate) on_lost: OnLost,
    /// Time between TERM and KILL; by default half of the time left to the deadline.
    pub(crate) kill_after: Option<Duration>,
    /// How to print messages.
    pub(crate) voice: Voice,
    /// What is known so far.
    pub(crate) state: State,
}

/// What is known of a running command.
#[derive(Debug, Default)]
pub(crate) struct State {
    group: Option<Group>,
    /// The group after it has ended: another process may have its number by now.
    gone: Option<Group>,
    end: Option<Result<u8, Failure>>,
    interrupted: Option<Interrupt>,
    /// The last signal that was passed on.
    passed: Option<Signal>,
    /// The command was asked to end: by a signal that was passed on, or by a key of the terminal.
    told_to_end: bool,
    lost: Option<LossReason>,
    kill_at: Option<Deadline>,
    /// The command has had the terminal, or gets it first, and gets it back when this process does.
    wants_terminal: bool,
    /// The deadline that the supervisor knows.
    told: Option<u64>,
    /// When the supervisor kills the command.
    kill_by: Option<KillBy>,
    /// Signals that arrived before the command had started.
    early: Vec<Signal>,
}

impl State {
    /// Creates the state before the command has started, which may get the terminal. The supervisor
    /// kills the command at `kill_by`, unless that moves.
    pub(crate) fn new(wants_terminal: bool, kill_by: Option<u64>) -> Self {
        let kill_by = kill_by.map(|time| KillBy { time, is_over: false });
        Self { wants_terminal, kill_by, ..Self::default() }
    }
}

/// When the supervisor kills the command: the last time that it was sent.
#[derive(Clone, Copy, Debug)]
struct KillBy {
    /// On the steady clock.
    time: u64,
    /// A renewal has moved an earlier time after that had come.
    is_over: bool,
}

impl KillBy {
    /// Moves the time.
    fn move_to(self, time: u64, now: u64) -> Self {
        Self { time, is_over: self.has_come(now) }
    }

    /// Returns true if the supervisor may have killed the command by now.
    fn has_come(self, now: u64) -> bool {
        self.is_over || self.time <= now
    }
}

/// A key of the terminal that ended the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt {
    /// The signal of the key.
    pub(crate) signal: Signal,
    /// Only the command got it, as it had the terminal; the rest of the job has not.
    pub(crate) tell_job: bool,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code.
    pub(crate) code: u8,
    /// Why a lock was lost before, if `leasehold` detected that.
    pub(crate) lost: Option<LossReason>,
    /// A key of the terminal ended it.
    pub(crate) interrupted: Option<Interrupt>,
    /// It ended because a signal asked it to.
    pub(crate) was_told_to_end: bool,
}

impl Job<'_> {
    /// Follows the command to its end, and to the end of its group.
    pub(crate) async fn run(mut self) -> Result<Ended, Failure> {
        loop {
            let next_telling = self.tell_deadline();
            tokio::select! {
                biased;
                // First: if this process was paused, the group may have ended long ago.
                report = self.supervisor.next() => match report {
                    Some(report) => self.take(report),
                    None => break,
                },
                (name, reason) = self.held.lost(), if self.state.lost.is_none() => {
                    self.lock_lost(&name, reason);
                }
                () = until(self.state.kill_at) => self.kill(),
                signal = self.signals.next() => self.pass_on(signal),
                () = until(next_telling) => {}
            }
        }
        if self.was_killed_in_time()
            && let Some(name) = self.held.first_to_end().cloned()
        {
            self.lock_lost(&name, LossReason::Expired);
        }
        let Self { supervisor, mut state, terminal, .. } = self;
        supervisor.collect();
        if state.end.is_none() {
            state.end = Some(Err(Failure::own(match state.group {
                Some(_) => {
                    "the supervisor was killed; the command and its process group were ended"
                }
                None => "the supervisor was killed before it started the command",
            })));
        }
        if let Some(group) = state.group {
            // The supervisor was killed, and could not end the group.
            while group.is_alive() {
                group.signal(Signal::SIGKILL);
                sleep(LOOK_AGAIN).await;
            }
        }
        if let Some(group) = state.group.or(state.gone) {
            take_back(terminal.as_ref(), group);
        }
        let code = match state.end {
            _ if state.lost.is_some() && self.on_lost == OnLost::Kill => code::LOST,
            Some(end) => end?,
            None => code::OWN,
        };
        let interrupted = state.interrupted.filter(|_| code != code::LOST);
        let was_told_to_end = state.told_to_end;
        Ok(Ended { code, lost: state.lost, interrupted, was_told_to_end })
    }

    /// Returns true if the supervisor has killed the command because the lease was about to end, before
    /// this process, which was paused or slow, noticed that.
    fn was_killed_in_time(&self) -> bool {
        let killed = matches!(self.state.end, Some(Ok(code)) if code == KILLED);
        // A renewal that came too late may have moved the deadline since.
        let now = timer::now_steady_ns();
        let due = self.state.kill_by.is_some_and(|by| by.has_come(now))
            || self.held.deadline_steady_ns().is_some() && self.held.remaining() <= RESERVE;
        killed && due && self.on_lost == OnLost::Kill && self.state.lost.is_none()
    }

    /// Sends the supervisor a deadline that a renewal has moved, in case this process is paused
    /// from now on. Returns when to check again.
    fn tell_deadline(&mut self) -> Option<Deadline> {
        let deadline = self.held.deadline_steady_ns().filter(|_| self.on_lost == OnLost::Kill)?;
        if self.state.told != Some(deadline)
            && let Some(time) = kill_by(self.held)
            && self.supervisor.tell_deadline(time)
        {
            self.state.told = Some(deadline);
            let now = timer::now_steady_ns();
            self.state.kill_by = self.state.kill_by.map(|by| by.move_to(time, now));
        }
        let pause = self.held.remaining() / 10;
        Some(timer::after(pause.clamp(SHORTEST_LOOK, LONGEST_LOOK)))
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Spawned(pid) => {
                self.state.group = Some(Group(Pid::from_raw(pid)));
                for signal in std::mem::take(&mut self.state.early) {
                    self.pass_on(signal);
                }
                if self.state.lost.is_some() {
                    self.end_for_loss();
                }
            }
            Report::Failed(number) => self.state.end = Some(Err(self.not_started(number))),
            Report::Stopped(number) => self.stopped(number),
            Report::Exited(number) => {
                self.state.end = Some(Ok(u8::try_from(number & 0xff).unwrap_or(code::OWN)));
                // A program that cleans up after the interrupt key ends like this.
                let interrupted = number == i32::from(code::SIGNAL) + Signal::SIGINT as i32;
                self.state.told_to_end |=
                    interrupted && self.interrupt(Signal::SIGINT as i32).is_some();
            }
            Report::Killed(number) => {
                let number = u8::try_from(number).unwrap_or(0);
                self.state.end = Some(Ok(code::SIGNAL.saturating_add(number)));
                self.state.interrupted = self.interrupt(i32::from(number));
                let was_ours =
                    self.state.passed.is_some_and(|signal| signal as i32 == i32::from(number));
                self.state.told_to_end |= was_ours || self.state.interrupted.is_some();
            }
            Report::Gone => self.state.gone = self.state.group.take(),
        }
    }

    /// Returns whether a signal that ended the command probably came from the terminal.
    fn interrupt(&self, number: i32) -> Option<Interrupt> {
        let front = self.foreground()?;
        let signal = Signal::try_from(number).ok()?;
        let went_to_command = self.state.group.is_some_and(|group| group.0 == front);
        let came_to_us = self.state.passed == Some(signal);
        let by_key = matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
        (by_key && (went_to_command || came_to_us))
            .then_some(Interrupt { signal, tell_job: went_to_command })
    }

    fn not_started(&self, number: i32) -> Failure {
        let error = std::io::Error::from_raw_os_error(number);
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => code::NOT_FOUND,
            _ => code::CANNOT_RUN,
        };
        Failure::with_code(code, format!("cannot run {:?}: {error}", self.program))
    }

    fn foreground(&self) -> Option<Pid> {
        self.terminal.as_ref()?.foreground()
    }

    fn pass_on(&mut self, signal: Signal) {
        let Some(group) = self.state.group else {
            self.state.early.push(signal);
            return;
        };
        if signal == Signal::SIGCONT {
            self.resume(group);
        } else {
            self.state.passed = Some(signal);
            // It may clean up, and end by itself; other signals (HUP) may have another meaning for it.
            self.state.told_to_end |= matches!(signal, Signal::SIGTERM | Signal::SIGINT);
            group.signal(signal);
            self.supervisor.wake();
        }
    }

    /// Continues the command after this process was continued, by `fg`, `bg` or another process,
    /// unless the lock was lost during the pause.
    fn resume(&mut self, group: Group) {
        if self.on_lost == OnLost::Kill && self.state.lost.is_none() && self.held.is_over() {
            return; // The loss is reported next, and ends it.
        }
        if let Some(terminal) = &self.terminal
            && self.state.wants_terminal
            && terminal.foreground() == Some(getpgrp())
        {
            terminal.give(group.0);
        }
        group.signal(Signal::SIGCONT);
    }

    /// Handles a stop of the command. Under a job-control shell, the whole job stops, so that the
    /// shell sees it; otherwise this process continues, since it must renew the lock.
    fn stopped(&mut self, number: i32) {
        let (Some(group), Some(terminal)) = (self.state.group, &self.terminal) else { return };
        let Ok(signal) = Signal::try_from(number) else { return };
        let (home, front) = (getpgrp(), terminal.foreground());
        let has_terminal = front == Some(group.0);
        let asks_for_it = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if asks_for_it && front == Some(home) {
            self.state.wants_terminal = true;
            terminal.give(group.0);
            group.signal(Signal::SIGCONT);
            return;
        }
        if terminal::is_orphaned() {
            // Without a shell no process would continue it; the kernel also drops such a stop.
            if signal == Signal::SIGTSTP {
                group.signal(Signal::SIGCONT);
            }
            return;
        }
        if has_terminal || asks_for_it || signal == Signal::SIGTSTP {
            self.state.wants_terminal |= has_terminal || asks_for_it;
            take_back(Some(terminal), group);
            let _ = killpg(home, Signal::SIGSTOP);
        }
    }

    fn lock_lost(&mut self, name: &Name, reason: LossReason) {
        self.state.lost = Some(reason);
        self.end_for_loss();
        let what = match self.on_lost {
            OnLost::Kill => text!("ending the command", "正在终止命令"),
            OnLost::Warn => {
                text!("the command continues (--on-lost warn)", "命令继续运行（--on-lost warn）")
            }
            OnLost::Ignore => return,
        };
        let why = match reason {
            LossReason::Expired => text!("it could not be renewed in time", "没能及时续期"),
            LossReason::MaxHold => text!(
                "the longest time to hold it (--max-hold) has ended",
                "最长持有时间（--max-hold）已到"
            ),
            LossReason::NotOwner => text!(
                "the store reports that this run does not hold it any more",
                "存储显示，锁已不属于这次运行"
            ),
            LossReason::ClientClosed => {
                text!("the connection to the store was closed", "与存储的连接已关闭")
            }
            _ => text!("the client reports its loss", "客户端报告丢锁"),
        };
        self.voice.warn(&text!(
            "the lock {} is lost: {}; {}",
            "丢了锁 {}：{}；{}",
            name,
            why,
            what
        ));
    }

    /// Sends TERM, then KILL early enough that the group has ended before the deadline.
    fn end_for_loss(&mut self) {
        let (OnLost::Kill, Some(group)) = (self.on_lost, self.state.group) else { return };
        let left = self.held.remaining();
        let grace = self.kill_after.unwrap_or(left / 2).min(left - reserve(left));
        group.terminate();
        self.state.kill_at = Some(timer::after(grace));
    }

    fn kill(&mut self) {
        self.state.kill_at = None;
        if let Some(group) = self.state.group {
            group.signal(Signal::SIGKILL);
            self.supervisor.wake();
        }
    }
}

/// Returns when the group must be killed at the latest, on the steady clock; `None` without a
/// deadline.
pub(crate) fn kill_by(held: &Held) -> Option<u64> {
    let reserve = u64::try_from(reserve(held.remaining()).as_nanos()).unwrap_or(0);
    Some(held.deadline_steady_ns()?.saturating_sub(reserve))
}

/// Returns how much of the time left is reserved for KILL.
fn reserve(left: Duration) -> Duration {
    (left / 4).min(RESERVE)
}

/// Takes the terminal back if the command's group has it.
fn take_back(terminal: Option<&Terminal>, group: Group) {
    if let Some(terminal) = terminal.filter(|terminal| terminal.foreground() == Some(group.0)) {
        terminal.give(getpgrp());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_before_a_late_renewal_counts() {
        let by = KillBy { time: 10, is_over: false };
        assert!(!by.has_come(9) && by.has_come(10));
        assert!(!by.move_to(20, 9).has_come(19), "moved in time");
        assert!(by.move_to(20, 10).has_come(11), "the command may have been killed before");
        assert!(by.move_to(20, 10).move_to(30, 12).has_come(13));
    }
}
