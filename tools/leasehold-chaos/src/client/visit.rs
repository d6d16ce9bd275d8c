//! The command that an operator runs under the lock by `leasehold run`: it counts as the tasks of clients do, and knows
//! of its lease no more than the token. When the lock is lost, `leasehold run` ends it.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use super::{Files, LOOK};
use crate::journal::{HoldEnd, Journal, JournalEntry};
use crate::part::Part;
use crate::{MS, Result, now};

/// The variable that has the token.
const TOKEN: &str = "LEASEHOLD_TOKEN";
/// The variable that has the slot of a semaphore.
const SLOT: &str = "LEASEHOLD_SLOT";
/// The numbers of these processes begin here.
pub(crate) const FIRST: u32 = 1_000_000;
/// A lease that `leasehold run` keeps has no deadline that the command knows.
const NEVER: u64 = u64::MAX;

/// The arguments of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VisitArgs {
    /// Where journals and resources are
    folder: PathBuf,
    /// When `leasehold run` was started
    asked: u64,
    /// How long it works, in milliseconds
    work: u64,
    /// The store, by which the process is found
    _url: String,
}

/// The words that tell it.
pub(crate) fn words(folder: &std::path::Path, asked: u64, work: u64, url: &str) -> [String; 5] {
    let folder = folder.display().to_string();
    ["visit".to_owned(), folder, asked.to_string(), work.to_string(), url.to_owned()]
}

/// The journal of the command of a run that was started then.
pub(crate) fn file(asked: u64) -> String {
    format!("visit-{asked}")
}

/// Counts once.
pub(crate) fn visit(args: &VisitArgs) -> Result<()> {
    let token = std::env::var(TOKEN)?.parse()?;
    let files = Files::in_folder(&args.folder);
    let journal = Journal::open(&args.folder.join(file(args.asked)))?;
    let slot = std::env::var(SLOT).ok().and_then(|slot| slot.parse().ok());
    let part = slot.map_or(Part::Whole, |slot: u32| Part::of_slots(&[slot]));
    let (number, got) = (FIRST + std::process::id(), now());
    let attempt = file(args.asked);
    journal.write(&JournalEntry::Held {
        hold: 0,
        asked: args.asked,
        got,
        token,
        deadline: NEVER,
        attempt,
        part,
    });
    let resources = files.open_for(part)?;
    let seen = resources.read(number, token)?;
    while now() < got + args.work * MS {
        journal.write(&JournalEntry::Valid { hold: 0, at: now(), deadline: NEVER });
        sleep(Duration::min(LOOK, Duration::from_millis(args.work)));
    }
    resources.write(number, token, &seen)?;
    journal.write(&JournalEntry::Ended {
        hold: 0,
        at: now(),
        end: HoldEnd::Valid,
        deadline: NEVER,
    });
    journal.write(&JournalEntry::Done);
    Ok(())
}
