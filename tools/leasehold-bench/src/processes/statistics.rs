//! What a Redis server of ours says of a run: the commands that clients have sent, and how many
//! stand before it.
//!
//! The server's statistics count what scripts call as well as what clients send, by command (seen on
//! Redis 7.0: `EVAL` of a loop over 100 `GET` adds 100 to `cmdstat_get` and 101 to
//! `total_commands_processed`). `MONITOR` tells both apart, but slows the server down. So the counts
//! are taken over the whole window, undisturbed, and the share of each command that clients send is
//! taken from a short look with `MONITOR` afterwards, while everything goes on. Nearly always that
//! share is all or nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold_test_servers::Admin;

use super::Contenders;
use crate::Result;
use crate::store::StoreAddress;

/// How long, and how many commands, are looked at with `MONITOR`.
const LOOK: Duration = Duration::from_millis(300);
const LINES: usize = 20_000;

/// Commands that only this benchmark sends.
const OURS: [&str; 4] = ["info", "monitor", "zcount", "auth"];

/// A window that is being watched.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    place: &'a StoreAddress,
    admin: Option<Admin>,
    before: BTreeMap<String, u64>,
    contenders: Contenders,
    seen: Vec<f64>,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) commands: Option<f64>,
    pub(super) contenders: Option<f64>,
}

impl<'a> Watch<'a> {
    /// Begins; does nothing where there is no server of ours.
    pub(super) fn open(place: &'a StoreAddress, contenders: Contenders) -> Result<Self> {
        let mut admin = place.server().map(|server| server.connect()).transpose()?;
        let before = admin.as_mut().map(counts).transpose()?.unwrap_or_default();
        Ok(Self { place, admin, before, contenders, seen: Vec::new() })
    }

    /// Looks at the queue.
    pub(super) fn look(&mut self) -> Result<()> {
        if let (Some(admin), Contenders::Queued(queue)) = (&mut self.admin, &self.contenders) {
            let waiting = admin.call(&["ZCOUNT", queue, "-inf", "+inf"])?.integer();
            // And who holds it.
            self.seen.extend(waiting.map(|waiting| waiting as f64 + 1.0));
        }
        Ok(())
    }

    /// Ends, while everything still goes on.
    pub(super) fn close(mut self) -> Result<Seen> {
        let Some(admin) = &mut self.admin else {
            return Ok(Seen { commands: None, contenders: None });
        };
        let after = counts(admin)?;
        let shares =
            self.place.server().map(|server| shares(&mut server.connect()?)).transpose()?;
        let commands = shares.map(|shares| sent(&self.before, &after, &shares));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let contenders = match self.contenders {
            Contenders::Uncounted => None,
            Contenders::Known(known) => Some(known as f64),
            Contenders::Queued(_) => Some(mean(&self.seen)),
        };
        Ok(Seen { commands, contenders })
    }
}

/// Calls by command.
fn counts(admin: &mut Admin) -> Result<BTreeMap<String, u64>> {
    let info = admin.call(&["INFO", "commandstats"])?.text();
    let one = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls: u64 = rest.split(',').next()?.parse().ok()?;
        Some((name.split('|').next()?.to_owned(), calls))
    };
    let mut counts = BTreeMap::new();
    for (name, calls) in info.lines().filter_map(one) {
        *counts.entry(name).or_default() += calls;
    }
    Ok(counts)
}

/// By command: how many came from clients, and how many from scripts.
type Shares = BTreeMap<String, (u64, u64)>;

fn shares(admin: &mut Admin) -> Result<Shares> {
    let mut shares = Shares::new();
    admin.call(&["MONITOR"])?;
    let start = Instant::now();
    for _ in 0..LINES {
        if start.elapsed() > LOOK {
            break;
        }
        // 1339518083.107412 [0 127.0.0.1:60866] "set" ...; in a script: [0 lua] "SET" ...
        let line = admin.receive()?.text();
        let Some((from, rest)) = line.split_once("] \"") else { continue };
        let command = rest.split('"').next().unwrap_or_default().to_ascii_lowercase();
        let share = shares.entry(command).or_default();
        if from.ends_with(" lua") {
            share.1 += 1;
        } else {
            share.0 += 1;
        }
    }
    Ok(shares)
}

/// Commands that clients have sent between two counts. One that was not seen counts as sent.
fn sent(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, shares: &Shares) -> f64 {
    let one = |(name, calls): (&String, &u64)| {
        let calls = (calls - before.get(name).copied().unwrap_or(0).min(*calls)) as f64;
        let (clients, scripts) = shares.get(name).copied().unwrap_or((1, 0));
        calls * clients as f64 / (clients + scripts) as f64
    };
    let theirs = after.iter().filter(|(name, _)| !OURS.contains(&name.as_str()));
    theirs.map(one).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::store::Store;

    /// A client sends SET and EVAL by turns, and each script calls GET three times: two commands a
    /// turn, whatever the server counts.
    #[test]
    fn what_scripts_call_is_not_taken_for_sent() {
        if leasehold_test_servers::Needs::Redis.is_skipped() {
            return;
        }
        const SCRIPT: &str = "for _ = 1, 3 do redis.call('GET', KEYS[1]) end";
        let place = Store::Redis.place().unwrap();
        let server = place.server().unwrap();
        let mut admin = server.connect().unwrap();
        let (before, stop) = (counts(&mut admin).unwrap(), AtomicBool::new(false));
        let (turns, after, shares) = std::thread::scope(|scope| {
            let turns = scope.spawn(|| {
                let mut client = server.connect().unwrap();
                let mut turns = 0_u64;
                while !stop.load(Ordering::Relaxed) || turns < 100 {
                    client.call(&["SET", "a", "1"]).unwrap();
                    client.call(&["EVAL", SCRIPT, "1", "a"]).unwrap();
                    turns += 1;
                }
                turns
            });
            let shares = shares(&mut server.connect().unwrap());
            stop.store(true, Ordering::Relaxed);
            let turns = turns.join().unwrap();
            (turns, counts(&mut admin).unwrap(), shares.unwrap())
        });
        assert_eq!(after["get"], 3 * turns, "the server counts what scripts call");
        assert_eq!(sent(&before, &after, &shares), 2.0 * turns as f64, "{shares:?}");
    }
}
