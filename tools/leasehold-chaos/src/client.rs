//! A client process: its tasks want one lock again and again, count under it, and write down what
//! they saw.

mod abandon;
mod clean_up;
mod queue;
mod visit;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Client, Error, ErrorKind, Guard, Lock, LossReason, Usage};
use tokio::task::JoinSet;

use crate::failure::FailureKind;
use crate::journal::{HoldEnd, Journal, JournalEntry};
use crate::resource::Resource;
use crate::{Result, TTL, now};

pub(crate) use self::clean_up::{CleanUpArgs, CleanedUp, KEPT, clean_up, name as idle_name};
pub(crate) use self::visit::{FIRST, VisitArgs, file as visit_file, visit, words as visit_words};

use self::abandon::{Abandon, drop_acquire, panic_with, up_to};

/// The one lock.
pub(crate) const NAME: &str = "counter";
/// While this file is there no task asks for the lock, so that it becomes free.
pub(crate) const LULL: &str = "lull";
/// The holder that removes this file keeps the lock for [`LONG`].
pub(crate) const KEEP: &str = "keep";
/// Some renewals long, in milliseconds.
const LONG: u64 = 2000;
/// A try ends after 2 s at the latest.
const LONGEST_TRY: Duration = Duration::from_millis(2500);
/// The wall clock was set if it has moved by this much.
const STEP: u64 = 10 * crate::MS;
/// A holder looks so often whether it still holds.
const LOOK: Duration = Duration::from_millis(5);

/// The arguments of a client process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// The store
    pub(crate) url: String,
    /// Number of this process, from 1
    pub(crate) number: u32,
    /// Where journals and resources are
    pub(crate) folder: PathBuf,
    /// Tasks that want the lock
    pub(crate) tasks: u32,
}

impl ClientArgs {
    /// The words that tell it.
    pub(crate) fn words(&self) -> [OsString; 5] {
        let (number, tasks) = (self.number.to_string(), self.tasks.to_string());
        let folder = self.folder.clone().into_os_string();
        ["client".into(), self.url.clone().into(), number.into(), folder, tasks.into()]
    }
}

/// The arguments of a process that removes the record of the lock.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    /// The time until then
    #[arg(value_parser = milliseconds)]
    after: Duration,
    /// The store
    url: String,
    /// What the names start with
    names: String,
}

fn milliseconds(text: &str) -> std::result::Result<Duration, String> {
    let number = text.strip_suffix("ms").and_then(|number| number.parse().ok());
    number.map(Duration::from_millis).ok_or_else(|| "allowed is a number with ms".to_owned())
}

/// Removes the record, and says how many there were; false while the store is not available.
pub(crate) fn forget(args: &ForgetArgs) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let removed = runtime.block_on(async {
        tokio::time::sleep(args.after).await;
        leasehold::forget(&args.url, &args.names).await
    });
    match removed {
        Ok(removed) => println!("removed {removed}"),
        Err(error) if FailureKind::of(error.kind()).is_some() => {
            eprintln!("{error}");
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// The files of a run.
#[derive(Clone, Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    pub(crate) fn journal(&self, number: u32) -> PathBuf {
        self.0.join(format!("client-{number}"))
    }

    pub(crate) fn resource(&self, fenced: bool) -> PathBuf {
        self.0.join(if fenced { "fenced" } else { "unfenced" })
    }

    pub(crate) fn open(&self, fenced: bool) -> std::io::Result<Resource> {
        Resource::open(&self.resource(fenced), fenced)
    }

    /// When this file exists, each task gets the lock once more and then ends.
    pub(crate) fn ending(&self) -> PathBuf {
        self.0.join("ending")
    }

    fn lull(&self) -> PathBuf {
        self.0.join(LULL)
    }

    fn keep(&self) -> PathBuf {
        self.0.join(KEEP)
    }
}

/// Plays the part until the file of the end exists.
pub(crate) fn play(args: &ClientArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let files = Files::in_folder(&args.folder);
        let journal = Arc::new(Journal::open(&files.journal(args.number))?);
        let client = connect(&args.url, &journal).await?;
        let holds = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for task in 0..args.tasks {
            let counter = Counter {
                number: args.number,
                url: args.url.clone(),
                lock: client.lock(NAME).ttl(TTL),
                resources: [files.open(false)?, files.open(true)?],
                journal: journal.clone(),
                ending: files.ending(),
                lull: files.lull(),
                keep: files.keep(),
                holds: holds.clone(),
                rng: fastrand::Rng::with_seed(u64::from(args.number) << 32 | u64::from(task)),
            };
            tasks.spawn(counter.again_and_again());
        }
        let looks = tokio::spawn(queue::look_at_queue(client.lock(NAME), journal.clone()));
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        looks.abort();
        looks.await.ok();
        client.close().await;
        journal.write(&match client.usage() {
            usage if usage == Usage::default() => JournalEntry::Done,
            usage => JournalEntry::Wrong(format!("{usage:?} is left")),
        });
        Ok(())
    })
}

/// Servers may be away when a client starts, or refuse it.
async fn connect(url: &str, journal: &Journal) -> Result<Client> {
    loop {
        match leasehold::connect(url).await {
            Ok(client) => return Ok(client),
            Err(error) => {
                let told = FailureKind::of(error.kind());
                note(journal, told, &error);
                if told.is_none() {
                    return Err(error.into());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Writes down what a client was told, and when: the judge knows whether something explains it.
fn note(journal: &Journal, told: Option<FailureKind>, error: &Error) {
    let what = error.to_string();
    journal.write(&match told {
        Some(told) => JournalEntry::Failed { at: now(), told, what },
        None => JournalEntry::Wrong(what),
    });
}

/// One task.
struct Counter {
    number: u32,
    url: String,
    lock: Lock,
    resources: [Resource; 2],
    journal: Arc<Journal>,
    ending: PathBuf,
    lull: PathBuf,
    keep: PathBuf,
    holds: Arc<AtomicU64>,
    rng: fastrand::Rng,
}

impl Counter {
    /// Wants the lock until it has got it after the end was told.
    async fn again_and_again(mut self) -> std::io::Result<()> {
        loop {
            let last = self.ending.exists();
            while self.lull.exists() {
                tokio::time::sleep(LOOK).await;
            }
            match self.rng.u32(..1000) {
                _ if last => {}
                0..30 => {
                    self.journal.write(&Abandon::DroppedAcquire.line());
                    drop_acquire(&self.lock, up_to(&mut self.rng, 50)).await;
                }
                30..33 => self = self.with_runtime_end().await?,
                33..50 => {
                    self.try_once().await?;
                    continue;
                }
                _ => {}
            }
            let asked = now();
            match self.lock.acquire().await {
                Ok(guard) => {
                    self.hold(asked, guard).await?;
                    if last {
                        return Ok(());
                    }
                    let think = self.rng.u64(..8);
                    tokio::time::sleep(Duration::from_millis(think)).await;
                }
                Err(error) => {
                    note(&self.journal, FailureKind::of_attempt(error.kind()), &error);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Gets the lock only if it is free.
    async fn try_once(&mut self) -> std::io::Result<()> {
        let (asked, mut looks) = (now(), 0);
        let outcome = {
            let mut trying = pin!(self.lock.try_acquire());
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut trying => break outcome,
                    () = tokio::time::sleep(LOOK) => looks += 1,
                }
            }
        };
        // Looks are not made while the process is stopped.
        if LOOK * looks > LONGEST_TRY {
            let what = format!("a try took longer than {looks} looks of {LOOK:?}");
            self.journal.write(&JournalEntry::Wrong(what));
        }
        match outcome {
            Ok(Some(guard)) => self.hold(asked, guard).await,
            Ok(None) => Ok(()),
            Err(error) => {
                note(&self.journal, FailureKind::of_attempt(error.kind()), &error);
                Ok(())
            }
        }
    }

    /// Counts under the lock.
    async fn hold(&mut self, asked: u64, guard: Guard) -> std::io::Result<()> {
        let hold = self.begins(asked, &guard);
        let token = guard.token().get();
        let mut seen = [None; 2];
        for (seen, resource) in seen.iter_mut().zip(&self.resources) {
            *seen = resource.read(self.number, token)?;
        }
        // Mostly shorter than a hand-off, now and then beyond several renewals.
        let work = match self.rng.u32(..1000) {
            _ if self.keep.exists() && std::fs::remove_file(&self.keep).is_ok() => LONG,
            0..3 => self.rng.u64(200..2000),
            3..30 => self.rng.u64(10..100),
            _ => self.rng.u64(..4),
        };
        self.work(hold, &guard, now() + work * crate::MS).await;
        if guard.is_valid() {
            // No lock can know of a pause from here on.
            if self.rng.u32(..4) == 0 {
                tokio::time::sleep(Duration::from_millis(self.rng.u64(1..10))).await;
            }
            for (seen, resource) in seen.iter().zip(&self.resources) {
                if let Some(value) = seen {
                    resource.write(self.number, token, value + 1)?;
                }
            }
        }
        let at = now();
        let end = match guard.is_valid() {
            true => HoldEnd::Valid,
            false if guard.lost().await == LossReason::Expired => HoldEnd::Expired,
            false => HoldEnd::Told,
        };
        self.journal.write(&JournalEntry::Ended { hold, at, end, deadline: deadline(&guard) });
        let abandon = Abandon::of_hold(&mut self.rng);
        if let Some(abandon) = abandon {
            self.journal.write(&abandon.line());
        }
        match abandon {
            Some(Abandon::Panic) => panic_with(guard).await,
            Some(_) => drop(guard),
            None => self.release(guard).await,
        }
        Ok(())
    }

    /// Writes down that the lock is held from now on; the number of the hold.
    fn begins(&self, asked: u64, guard: &Guard) -> u64 {
        let (got, token) = (now(), guard.token().get());
        let hold = self.holds.fetch_add(1, Ordering::Relaxed);
        let (deadline, attempt) = (deadline(guard), guard.attempt().to_string());
        self.journal.write(&JournalEntry::Held { hold, asked, got, token, deadline, attempt });
        hold
    }

    /// Ends a runtime under a guard, on a thread of its own.
    async fn with_runtime_end(mut self) -> std::io::Result<Self> {
        let (url, pause) = (self.url.clone(), up_to(&mut self.rng, 20));
        let ending = tokio::task::spawn_blocking(move || {
            self.end_runtime(&url, pause)?;
            Ok(self)
        });
        ending.await?
    }

    async fn release(&self, guard: Guard) {
        if let Err(error) = guard.release().await
            && error.kind() != ErrorKind::Lost
        {
            // What passes is tried again in the background.
            match FailureKind::of(error.kind()) {
                Some(FailureKind::Away) => {}
                told => note(&self.journal, told, &error),
            }
        }
    }

    /// Works until then, or until the loss is reported.
    async fn work(&self, hold: u64, guard: &Guard, until: u64) {
        let mut lost = pin!(guard.lost());
        let (mut was_valid, clock) = (true, wall_clock());
        while now() < until {
            tokio::select! {
                biased;
                _ = &mut lost => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let at = now();
            let is_valid = guard.is_valid();
            if is_valid {
                self.journal.write(&JournalEntry::Valid { hold, at, deadline: deadline(guard) });
            } else if !was_valid && wall_clock().abs_diff(clock) < STEP {
                let token = guard.token();
                let what =
                    format!("the guard with token {token} ended without a report of its loss");
                self.journal.write(&JournalEntry::Wrong(what));
            }
            was_valid = is_valid;
        }
    }
}

/// How far the wall clock is ahead of the clock by which leases end. A guard whose deadline has passed by the wall clock is
/// not valid, and reports that within a second.
fn wall_clock() -> u64 {
    let now = leasehold::clock::Clock::system().now();
    now.wall_ns.wrapping_sub(now.steady_ns)
}

/// When the guard ends unless renewed.
fn deadline(guard: &Guard) -> u64 {
    guard.deadline().map_or(u64::MAX, leasehold::Deadline::steady_ns)
}
