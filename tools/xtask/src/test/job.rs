//! One test program on its way: how it is started, and what it printed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::binaries::Binary;
use crate::tally::Tally;

/// A command whose output counts tests.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) command: Command,
}

/// A job that runs, or ran.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) name: String,
    pub(super) child: Child,
    /// Where its output goes: a file, so that a process which a test left behind cannot keep us
    /// waiting for the end of a pipe.
    pub(super) log: PathBuf,
}

impl Job {
    pub(super) fn new(name: impl Into<String>, command: Command) -> Self {
        Self { name: name.into(), command }
    }

    /// A test program that runs so many of its tests at a time.
    pub(super) fn of(binary: &Binary, threads: usize) -> Self {
        let mut command = match keyboard_signals_are_ignored() {
            true => {
                let mut env = Command::new("env");
                env.arg("--default-signal=HUP,INT,QUIT").arg(&binary.executable);
                env
            }
            false => Command::new(&binary.executable),
        };
        command.arg(format!("--test-threads={threads}"));
        // What `cargo test` sets and a test may read.
        command.current_dir(&binary.package).env("CARGO_MANIFEST_DIR", &binary.package);
        Self::new(&binary.name, command)
    }

    /// Its name, as that of a file.
    pub(super) fn file_name(&self) -> String {
        self.name.replace("::", "-")
    }

    /// Starts it, with its output in a file of `dir`.
    pub(super) fn start(mut self, dir: &Path) -> Result<Running, String> {
        let log = dir.join(format!("{}.log", self.file_name()));
        let failed = |error| format!("cannot run the tests of {}: {error}", self.name);
        let file = fs::create_dir_all(dir).and_then(|()| File::create(&log)).map_err(failed)?;
        let again = file.try_clone().map_err(failed)?;
        self.command.stdin(Stdio::null()).stdout(file).stderr(again);
        let child = self.command.spawn().map_err(failed)?;
        Ok(Running { name: self.name, child, log })
    }
}

impl Running {
    /// What it printed so far, counted.
    pub(super) fn tally(&self) -> (Tally, String) {
        let said = fs::read(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut tally = Tally::default();
        said.lines().for_each(|line| tally.read(line));
        (tally, said)
    }
}

/// Whether HUP, INT or QUIT is ignored, as shells without job control and `nohup` start what runs
/// in the background. Programs inherit that, and tests that send these signals would fail.
fn keyboard_signals_are_ignored() -> bool {
    ignored_by(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Reads the mask in the line `SigIgn:` of `/proc/PID/status`, hexadecimal, bit 0 for signal 1.
fn ignored_by(status: &str) -> bool {
    const HUP_INT_QUIT: u64 = 0b111;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & HUP_INT_QUIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert!(ignored_by("Name:\tx\nSigIgn:\t0000000000000006\nSigCgt:\t0\n"));
        assert!(!ignored_by("SigIgn:\t0000000000001000\n"));
        assert!(!ignored_by(""));
    }
}
