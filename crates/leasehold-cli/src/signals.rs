//! The signals that `leasehold` catches, to pass them on.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Every signal that a user or program sends on purpose. Not included: signals that cannot be
/// caught; faults (ABRT, BUS, FPE, ILL, SEGV, SYS, TRAP), PIPE and CHLD, which concern the process
/// that gets them; TTIN and TTOU, since a handler for them makes a background write spin.
const PASSED_ON: [Signal; 18] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTERM,
    Signal::SIGSTKFLT,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGURG,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGWINCH,
    Signal::SIGIO,
    Signal::SIGPWR,
];

/// The caught signals, in the order of arrival.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Starts to catch. A signal that was ignored from the start (`nohup`) stays ignored, here and
    /// in the command.
    pub(crate) fn catch() -> io::Result<Self> {
        Self::catch_of(&PASSED_ON)
    }

    /// The same for these signals alone.
    pub(crate) fn catch_of(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored_signals();
        let wanted = signals.iter().copied().filter(|&signal| ignored & bit(signal) == 0);
        wanted
            .map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal as i32))?)))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Returns true for signals that by default do not end a process.
pub(crate) fn is_harmless(signal: Signal) -> bool {
    matches!(signal, Signal::SIGCONT | Signal::SIGURG | Signal::SIGWINCH)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// Returns one bit for each signal that is ignored now.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
