//! The controlling terminal: which process group is in its foreground, and whether a shell manages
//! the group of `leasehold`.

use std::env;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp};

use crate::process_group::Stat;

/// The controlling terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal(File);

impl Terminal {
    /// Opens the terminal; `None` if there is none.
    pub(crate) fn open() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        tcgetpgrp(&file).ok()?;
        Some(Self(file))
    }

    /// Returns the process group in the foreground.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.0).ok()
    }

    /// Puts a group into the foreground. A failure (the group has ended, the terminal was hung up)
    /// changes nothing.
    pub(crate) fn give(&self, group: Pid) {
        // SIGTTOU stops a background process that does this, unless it blocks the signal. Block it
        // only here, since a command would inherit the mask.
        let mut ttou = SigSet::empty();
        ttou.add(Signal::SIGTTOU);
        let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        let _ = tcsetpgrp(&self.0, group);
        let _ = before.thread_set_mask();
    }
}

/// Returns true for a terminal that can redraw a row. Any other stream gets no control sequences.
pub(crate) fn can_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

/// Returns how many columns a terminal has; `None` if there is no terminal, or its width is
/// unknown.
pub(crate) fn width(of: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Returns true if no job-control shell would ever continue this process group after a stop: no
/// ancestor of this session is outside the group.
pub(crate) fn is_orphaned() -> bool {
    let (Ok(session), group) = (getsid(None), getpgrp()) else { return true };
    let mut parent = getppid();
    loop {
        if getsid(Some(parent)) != Ok(session) {
            return true;
        }
        if getpgid(Some(parent)) != Ok(group) {
            return false;
        }
        match Stat::read(&parent.to_string()).and_then(|stat| stat.parent()) {
            Some(next) if next.as_raw() > 0 => parent = next,
            _ => return true,
        }
    }
}
