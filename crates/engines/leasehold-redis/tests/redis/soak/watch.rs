//! Watches the record of the soak's lock: when no client can use it, and why.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_test_servers::{Admin, RedisServer};

use super::{NAME, TTL, now_us};

/// A time span of the system's clock in µs, from and to.
pub(crate) type Span = (u64, u64);

/// What it has seen.
#[derive(Debug)]
pub(crate) struct Watch {
    server: PathBuf,
    admin: Option<Admin>,
    last: u64,
    /// When no client could acquire the lock: the holder does not run, or the server does not.
    stalls: Vec<Span>,
    /// The token of a holder that does not run, and since when.
    silent: Option<(String, u64)>,
    longest_silent: u64,
}

impl Watch {
    pub(crate) fn of(server: &RedisServer) -> Self {
        let (server, last) = (server.socket(), now_us());
        Self { server, admin: None, last, stalls: Vec::new(), silent: None, longest_silent: 0 }
    }

    /// Checks once, with these running processes.
    pub(crate) fn look(&mut self, running: &[u32], somebody_is_stopped: bool) {
        let seen = self.record();
        let now = now_us();
        if seen.is_err() {
            self.admin = None;
        }
        let stalled = match seen.as_ref().map(Option::as_ref) {
            Err(_) => true,
            // The next call hands it on; the stopped process may be the one to make it.
            Ok(None) => somebody_is_stopped,
            Ok(Some((_, pid))) => !running.contains(pid),
        };
        if stalled {
            self.stalls.push((self.last, now));
        }
        match seen {
            Ok(Some((token, pid))) if !running.contains(&pid) => match &self.silent {
                Some((known, since)) if *known == token => {
                    self.longest_silent = self.longest_silent.max(now - since);
                }
                _ => self.silent = Some((token, now)),
            },
            _ => self.silent = None,
        }
        self.last = now;
    }

    /// Returns the token and the process of the current holder.
    fn record(&mut self) -> io::Result<Option<(String, u32)>> {
        if self.admin.is_none() {
            let mut admin = Admin::unix(&self.server)?;
            admin.call(&["AUTH", "leasehold-kit", "leasehold-kit"])?;
            self.admin = Some(admin);
        }
        let admin = self.admin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        // docs/redis-wire.md describes the bytes.
        let record = admin.call(&["GET", &format!("leasehold:{{{NAME}}}")])?.text();
        let held = record.get(2..3).is_some_and(|state| state == "H" || state == "O");
        let ends = record.get(84..100).and_then(|ends| ends.parse::<u64>().ok());
        if !held || ends.is_none_or(|ends| ends <= now_us()) {
            return Ok(None);
        }
        let tail = record.split_once("\"p\":").map_or("", |(_, rest)| rest);
        let digits = tail.split(|letter: char| !letter.is_ascii_digit()).next();
        let pid = digits.and_then(|digits| digits.parse().ok()).unwrap_or_default();
        Ok(Some((record.get(36..52).unwrap_or_default().to_owned(), pid)))
    }

    /// Returns how long within a span no client could acquire the lock.
    pub(crate) fn stalled_within(&self, (from, to): Span) -> Duration {
        let inside = |(start, end): &Span| (*end).min(to).saturating_sub((*start).max(from));
        Duration::from_micros(self.stalls.iter().map(inside).sum())
    }

    /// The lease of a dead or stopped holder ends with its ttl.
    pub(crate) fn none_held_for_longer_than_its_lease(&self) {
        let longest = Duration::from_micros(self.longest_silent);
        assert!(longest <= TTL, "held by nobody who runs for {longest:?}");
    }
}
