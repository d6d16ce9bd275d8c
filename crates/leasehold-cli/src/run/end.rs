//! Ends by the signal that ended the command, so that a script around it ends too.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{Signal, killpg, raise};
use nix::unistd::getpgrp;

use super::LAST_WORDS;
use super::job::Interrupt;
use crate::command::own_program;
use crate::failure::code;
use crate::output;

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "__end-by";

/// Ends by the signal of a key that ended the command, and makes sure that the rest of the job has
/// received it. A shell continues its script unless it gets the signal and sees that its program
/// ended by it.
///
/// Signal handlers can be removed in only one (safe) way: by executing another program. Returns
/// `code` if even that fails.
pub(crate) fn by_signal(interrupt: Interrupt, code: u8) -> u8 {
    let signal = interrupt.signal;
    if interrupt.tell_job {
        let _ = killpg(getpgrp(), signal);
    }
    output::finish(Some(LAST_WORDS));
    if let Ok(program) = own_program() {
        let _ = Command::new(program).arg0("leasehold").args([SUBCOMMAND, signal.as_str()]).exec();
    }
    code
}

/// Runs the other program.
pub(crate) fn main(signal: Option<&str>) -> u8 {
    if let Some(Ok(signal)) = signal.map(str::parse::<Signal>) {
        let _ = raise(signal);
        return code::SIGNAL.saturating_add(u8::try_from(signal as i32).unwrap_or(0));
    }
    code::OWN
}
