//! The controlling terminal: which process group is in its foreground, and whether a shell
//! looks after the one that `leasehold` is in.

use std::env;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp};

use crate::group::Stat;

/// The controlling terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal(File);

impl Terminal {
    /// The terminal; `None` when there is none.
    pub(crate) fn open() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        tcgetpgrp(&file).ok()?;
        Some(Self(file))
    }

    /// The process group in the foreground.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.0).ok()
    }

    /// Puts a group into the foreground. A failure (the group has gone, the terminal was hung
    /// up) leaves everything as it is.
    pub(crate) fn give(&self, group: Pid) {
        // A background process that does this is stopped by SIGTTOU unless it blocks it. Only
        // here, since a command would inherit the mask.
        let mut ttou = SigSet::empty();
        ttou.add(Signal::SIGTTOU);
        let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        let _ = tcsetpgrp(&self.0, group);
        let _ = before.thread_set_mask();
    }
}

/// True when this is a terminal that can draw a row anew. Anything else gets no control sequences.
pub(crate) fn can_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

/// How many columns a terminal has; `None` where there is none, or it does not say.
pub(crate) fn width(of: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// True when no job-control shell would ever continue our process group once it stops: no
/// ancestor of this session stands outside the group.
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
