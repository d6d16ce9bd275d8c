//! Whether the operator's commands did what they may: each ends as it is allowed to, a forced release ends
//! one lease, and its holder believes in it for no longer than a ttl.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Evidence, Forgets};
use crate::fault::Fault;
use crate::journal::Hold;
use crate::master_switch::Switch;
use crate::operator::{CommandEnd, Operation, Outcome, Ran};
use crate::part::Part;
use crate::{SECOND, TTL};

/// The longest time from the silence of a master to its replacement.
const TO_SWITCH: u64 = 10 * SECOND;

/// What became of the commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) run: u64,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) unavailable: u64,
    pub(crate) killed: u64,
    /// The longest time that one took.
    pub(crate) longest: u64,
}

/// The commands by kind.
pub(super) fn tally(ran: &[Ran]) -> BTreeMap<Operation, Tally> {
    let mut all: BTreeMap<Operation, Tally> = BTreeMap::new();
    for one in ran {
        let tally = all.entry(one.operation).or_default();
        tally.run += 1;
        *match one.outcome() {
            Outcome::Done => &mut tally.done,
            Outcome::Refused => &mut tally.refused,
            Outcome::Unavailable => &mut tally.unavailable,
            Outcome::Killed => &mut tally.killed,
        } += 1;
        tally.longest = tally.longest.max(one.until - one.from);
    }
    all
}

/// A lease that a forced release has ended, or may have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forced<'a> {
    ran: &'a Ran,
    lease: (u32, u32),
    part: Part,
    /// When the lease had certainly ended; `None` where the command did not say.
    until: Option<u64>,
}

/// The leases that forced releases have named.
pub(super) fn forced<'a>(evidence: &'a Evidence) -> Vec<Forced<'a>> {
    // Readers of a phase share a token, and permits of other slots may have it too.
    let mut leases: BTreeMap<u64, BTreeMap<(u32, u32), Part>> = BTreeMap::new();
    for hold in &evidence.holds {
        leases.entry(hold.token).or_default().insert(hold.lease(), hold.part);
    }
    let forced = |ran: &'a Ran| -> Vec<Forced<'a>> {
        let leases = ran.call.token.and_then(|token| leases.get(&token));
        let until = match ran.outcome() {
            Outcome::Refused => return Vec::new(),
            // One of several permits.
            Outcome::Done if is_one_of_permits(leases) => None,
            Outcome::Done => Some(ran.until),
            Outcome::Unavailable | Outcome::Killed => None,
        };
        let leases = leases.into_iter().flatten();
        leases.map(|(lease, part)| Forced { ran, lease: *lease, part: *part, until }).collect()
    };
    let releases = evidence.ran.iter().filter(|ran| ran.operation == Operation::ForceRelease);
    releases.flat_map(forced).collect()
}

fn is_one_of_permits(leases: Option<&BTreeMap<(u32, u32), Part>>) -> bool {
    let is_permit = |part: &Part| matches!(part, Part::Slots(_));
    leases.is_some_and(|leases| leases.len() > 1 && leases.values().all(is_permit))
}

impl Forced<'_> {
    /// Whether it explains that two clients believed in their leases: the owner of a lease that was
    /// ended by force detects it at its next renewal, at the latest by the clock. A client that was
    /// stopped may take the ended lease after another client has got the next one.
    pub(super) fn explains(&self, first: &Hold, second: &Hold) -> bool {
        let (owner, next) = match second.token < first.token {
            true => (second, first),
            false => (first, second),
        };
        self.lease == owner.lease()
            && next.got >= self.ran.from
            && self.until.is_none_or(|until| owner.until <= until + TTL.as_nanos() as u64)
    }
}

/// What commands did, and may not.
pub(super) fn wrong(evidence: &Evidence, forced: &[Forced<'_>], forgets: &Forgets) -> Vec<String> {
    let ended = evidence.ran.iter();
    let mut wrong: Vec<String> =
        ended.filter_map(|ran| ends_wrongly(ran, &evidence.switches)).collect();
    wrong.extend(changed_newer(evidence));
    // A server that forgets what it has granted also forgets what it has ended.
    let forgot_after = |time| forgets.since(time);
    for one in forced.iter().filter(|one| one.until.is_some() && !forgot_after(one.ran.from)) {
        let end = one.ran.until + TTL.as_nanos() as u64;
        let of_lease = evidence.holds.iter().filter(|hold| hold.lease() == one.lease);
        if let Some(late) = of_lease.clone().find(|hold| hold.until > end) {
            let start = one.ran.from;
            wrong.push(format!(
                "a lease that was ended by force at 0 s: {}; {}",
                late.told(start),
                one.ran.told()
            ));
        }
        // A later lease was there before the command began: this one had ended.
        let last = of_lease.map(|hold| hold.token).max().unwrap_or_default();
        let later = |hold: &&Hold| {
            hold.token > last && hold.got < one.ran.from && hold.part.conflicts(one.part)
        };
        if let Some(later) = evidence.holds.iter().find(later) {
            wrong.push(format!(
                "a lease that had ended was ended by force: {}; {}",
                later.told(one.ran.from),
                one.ran.told()
            ));
        }
    }
    wrong
}

/// The time that a newer version needs to be written, or to be taken away, on a busy machine.
const WRITING: u64 = SECOND / 2;

/// Each `init` that did its work while the tables were of a newer version, which it must leave as they are.
fn changed_newer(evidence: &Evidence) -> Vec<String> {
    let newer = evidence.injected.iter().filter(|one| one.fault == Fault::Newer);
    let newer: Vec<(u64, u64)> =
        newer.map(|one| (one.from + WRITING, one.until.saturating_sub(WRITING))).collect();
    let inits = evidence.ran.iter().filter(|ran| {
        ran.operation == Operation::Init
            && ran.outcome() == Outcome::Done
            && newer.iter().any(|(from, until)| *from < ran.from && ran.until < *until)
    });
    match evidence.setup.is_sql() {
        true => inits.map(|ran| format!("newer tables were taken: {}", ran.told())).collect(),
        false => Vec::new(),
    }
}

/// Whether a command without a fault was unavailable because the master changed: on a busy machine
/// sentinels may replace a master that is only slow. The run repeats such a command.
fn met_switch(ran: &Ran, switches: &[Switch]) -> bool {
    let near = |switch: &Switch| {
        switch.from <= ran.until + TO_SWITCH && switch.until + TO_SWITCH >= ran.from
    };
    ran.outcome() == Outcome::Unavailable && switches.iter().any(near)
}

/// An exit that the command may not have, an answer that is no JSON where it was asked for, or control
/// sequences in a file.
fn ends_wrongly(ran: &Ran, switches: &[Switch]) -> Option<String> {
    let is_allowed = match ran.end {
        CommandEnd::Exit(code) => ran.call.exits.contains(&code) || met_switch(ran, switches),
        CommandEnd::Killed => true,
        CommandEnd::Signal | CommandEnd::TooLong => false,
    };
    let asked_json = ran.call.words.iter().any(|word| word == "--json");
    let is_json = || {
        serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>().all(|one| one.is_ok())
    };
    let answered = ran.outcome() == Outcome::Done;
    let controls = [&ran.stdout, &ran.stderr].iter().any(|text| text.contains('\u{1b}'));
    (!is_allowed || controls || (asked_json && answered && !is_json())).then(|| ran.told())
}
