//! A clock for one program that jumps, or runs too fast or too slow, on command.
//!
//! A library that stands before the C library's `clock_gettime`, `gettimeofday` and `time`. The
//! monotonic clock, by which programs sleep, is left alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use crate::RedisSettings;
use crate::shim::Shim;

const SOURCE: &str = include_str!("clock_shim.c");
/// What the library reads the name of its file from.
const VARIABLE: &str = "LEASEHOLD_CLOCK_SHIM";
/// The clock that counts suspend.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::CLOCK_MONOTONIC;
const NANOS: f64 = 1e9;

/// The clock of all programs that were started with its [`env`](Self::env). Lives longer than they.
#[derive(Debug)]
pub struct ClockShim {
    shim: Arc<Shim>,
    /// The name of its file.
    name: String,
    file: File,
    state: Mutex<State>,
}

/// What the file holds: the wall clock shows `real + offset + (real - since) * rate`, and the steady
/// clock the same with numbers of its own and without an offset.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    version: i64,
    offset_ns: i64,
    since_ns: i64,
    rate_ppm: i64,
    steady_since_ns: i64,
    steady_rate_ppm: i64,
}

impl ClockShim {
    /// Compiles it; shows the right time at first.
    ///
    /// # Errors
    /// Without `cc`, or with what it says.
    pub fn build() -> io::Result<Self> {
        Self::with_file(Arc::new(Shim::build("clock_shim", SOURCE)?), 0)
    }

    /// Another clock, by the same library, that is moved apart from this one. `number` is not 0, and each has its own.
    ///
    /// # Errors
    /// What the file system says.
    pub fn another(&self, number: usize) -> io::Result<Self> {
        Self::with_file(self.shim.clone(), number)
    }

    fn with_file(shim: Arc<Shim>, number: usize) -> io::Result<Self> {
        let name = format!("clock-{number}");
        let path = shim.path(&name);
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let clock = Self { shim, name, file, state: Mutex::default() };
        clock.write(State::default())?;
        Ok(clock)
    }

    /// The environment in which a program has this clock.
    pub fn env(&self) -> [(String, String); 2] {
        self.shim.env(VARIABLE, &self.name)
    }

    /// `settings` with this clock.
    pub fn on(&self, settings: RedisSettings) -> RedisSettings {
        self.env().into_iter().fold(settings, |settings, (name, value)| settings.env(name, value))
    }

    /// Makes the clock jump to this far from the right time, in seconds, negative for the past;
    /// from there it runs as it ran before.
    ///
    /// # Errors
    /// What the file system says.
    pub fn set_offset(&self, seconds: f64) -> io::Result<()> {
        self.change(|state, _| state.offset_ns = (seconds * NANOS) as i64)
    }

    /// Lets the clock run at this many times the right speed (1.0 is right), from what it shows
    /// now. Not below 0.
    ///
    /// # Errors
    /// What the file system says.
    pub fn set_rate(&self, rate: f64) -> io::Result<()> {
        self.change(|state, drift_ns| {
            state.offset_ns += drift_ns;
            state.rate_ppm = ppm(rate);
        })
    }

    /// Lets the steady clock (the one that counts suspend, by which Leasehold measures) run at this many
    /// times the right speed from now on. For programs that are started after this: it may go back.
    ///
    /// # Errors
    /// What the file system says.
    pub fn set_steady_rate(&self, rate: f64) -> io::Result<()> {
        let now = clock_gettime(STEADY)?;
        self.change(|state, _| {
            state.steady_since_ns = now.tv_sec() * 1_000_000_000 + now.tv_nsec();
            state.steady_rate_ppm = ppm(rate);
        })
    }

    /// Applies a change from now on; `change` receives how far the rate has moved the clock.
    fn change(&self, change: impl FnOnce(&mut State, i64)) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = now.as_nanos() as i64;
        let drift_ns = i128::from(now_ns - state.since_ns) * i128::from(state.rate_ppm) / 1_000_000;
        change(&mut state, drift_ns as i64);
        state.since_ns = now_ns;
        state.version += 2;
        self.write(*state)
    }

    /// The version is odd while the rest changes; the library waits for that to pass.
    fn write(&self, state: State) -> io::Result<()> {
        let State { version, offset_ns, since_ns, rate_ppm, steady_since_ns, steady_rate_ppm } =
            state;
        self.file.write_all_at(&(version - 1).to_ne_bytes(), 0)?;
        let rest = [offset_ns, since_ns, rate_ppm, steady_since_ns, steady_rate_ppm];
        let rest = rest.map(i64::to_ne_bytes).concat();
        self.file.write_all_at(&rest, 8)?;
        self.file.write_all_at(&version.to_ne_bytes(), 0)
    }
}

/// A speed as a difference from the right one, in millionths.
fn ppm(rate: f64) -> i64 {
    ((rate.max(0.0) - 1.0) * 1e6) as i64
}
