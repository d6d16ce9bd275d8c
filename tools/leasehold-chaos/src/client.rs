//! A client process: its tasks want one lock again and again, count under it, and write down what
//! they saw.

mod abandon;
mod cached;
mod clean_up;
mod hold;
mod permits;
mod queue;
mod readers;
mod visit;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::{Client, Error, Guard, Lock, RwLock, Semaphore, Usage};
use tokio::task::JoinSet;

use crate::failure::FailureKind;
use crate::gate::Gates;
use crate::journal::{Journal, JournalEntry};
use crate::part::Part;
use crate::resource::{Resource, Resources};
use crate::workload::{LIMIT, Workload};
use crate::{Result, TTL, now};

pub(crate) use self::clean_up::{CleanUpArgs, CleanedUp, KEPT, clean_up, name as idle_name};
pub(crate) use self::visit::{FIRST, VisitArgs, file as visit_file, visit, words as visit_words};

use self::abandon::{Abandon, drop_acquire, up_to};

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
    /// What they do
    #[arg(value_enum, default_value_t)]
    pub(crate) workload: Workload,
}

impl ClientArgs {
    /// The words that tell it.
    pub(crate) fn words(&self) -> [OsString; 6] {
        let (number, tasks) = (self.number.to_string(), self.tasks.to_string());
        let folder = self.folder.clone().into_os_string();
        let workload = self.workload.name().into();
        ["client".into(), self.url.clone().into(), number.into(), folder, tasks.into(), workload]
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

    /// That of a slot, with a fence.
    pub(crate) fn slot(&self, slot: u32) -> PathBuf {
        self.0.join(format!("slot-{slot}"))
    }

    /// The resources of a run.
    pub(crate) fn open_all(&self, workload: Workload) -> std::io::Result<Vec<Resource>> {
        let slot = |slot| Resource::open(&self.slot(slot), true);
        match workload {
            Workload::Counter | Workload::Cached | Workload::Readers => {
                Ok(vec![self.open(false)?, self.open(true)?])
            }
            Workload::Permits => {
                std::iter::once(self.open(false)).chain((0..LIMIT).map(slot)).collect()
            }
        }
    }

    /// The resources that a hold of a part visits.
    pub(crate) fn open_for(&self, part: Part) -> std::io::Result<Resources> {
        let Part::Slots(_) = part else {
            return Ok(Resources::new(vec![self.open(false)?, self.open(true)?], None));
        };
        let slots = part.tracks().map(|slot| Resource::open(&self.slot(slot), true));
        Ok(Resources::new(slots.collect::<std::io::Result<_>>()?, Some(self.open(false)?)))
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
                workload: args.workload,
                lock: cached::lock(&client, args.workload, task),
                rw_lock: client.rw_lock(NAME).ttl(TTL),
                semaphore: client.semaphore(NAME, LIMIT).ttl(TTL),
                files: files.clone(),
                gates: Gates::in_folder(&args.folder),
                journal: journal.clone(),
                ending: files.ending(),
                lull: files.lull(),
                keep: files.keep(),
                holds: holds.clone(),
                turn: 0,
                rng: fastrand::Rng::with_seed(u64::from(args.number) << 32 | u64::from(task)),
            };
            tasks.spawn(counter.again_and_again());
        }
        // Permits are not judged by their queue. A writer is, by those that enter before it: also one that waits alone.
        let least = match args.workload {
            Workload::Counter | Workload::Cached => Some(2),
            Workload::Readers => Some(1),
            Workload::Permits => None,
        };
        let looks = least.map(|least| {
            tokio::spawn(queue::look_at_queue(client.lock(NAME), least, journal.clone()))
        });
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        if let Some(looks) = looks {
            looks.abort();
            looks.await.ok();
        }
        client.close().await;
        journal.write(&match client.usage() {
            usage if usage == Usage::default() => JournalEntry::Done,
            usage => JournalEntry::Wrong(format!("{usage:?} is left")),
        });
        Ok(())
    })
}

/// How long a task waits after a failed attempt. Where a server refuses each connection at once, each attempt makes one: the two
/// tasks of a client stay well below the connections that the judge allows it.
const FAILED_PAUSE: Duration = Duration::from_millis(100);

/// Servers may be away when a client starts, or refuse it.
pub(crate) async fn connect(url: &str, journal: &Journal) -> Result<Client> {
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
pub(crate) fn note(journal: &Journal, told: Option<FailureKind>, error: &Error) {
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
    workload: Workload,
    lock: Lock,
    rw_lock: RwLock,
    semaphore: Semaphore,
    files: Files,
    gates: Gates,
    journal: Arc<Journal>,
    ending: PathBuf,
    lull: PathBuf,
    keep: PathBuf,
    holds: Arc<AtomicU64>,
    /// Until when it wants a cached lock before it rests.
    turn: u64,
    rng: fastrand::Rng,
}

impl Counter {
    /// Wants the lock until it has got it after the end was told.
    async fn again_and_again(mut self) -> std::io::Result<()> {
        loop {
            self.rest().await;
            let last = self.ending.exists();
            while self.lull.exists() {
                tokio::time::sleep(LOOK).await;
            }
            match self.rng.u32(..1000) {
                _ if last => {}
                0..30 => {
                    let time = up_to(&mut self.rng, 50);
                    let writes = self.workload == Workload::Readers && self.rng.bool();
                    let dropped =
                        if writes { Abandon::DroppedWrite } else { Abandon::DroppedAcquire };
                    self.journal.write(&dropped.line());
                    match self.workload {
                        Workload::Counter | Workload::Cached => {
                            drop_acquire(self.lock.acquire(), time).await;
                        }
                        Workload::Readers if writes => {
                            drop_acquire(self.rw_lock.write(), time).await;
                        }
                        Workload::Readers => drop_acquire(self.rw_lock.read(), time).await,
                        Workload::Permits => drop_acquire(self.semaphore.acquire(), time).await,
                    }
                }
                30..33 if matches!(self.workload, Workload::Counter | Workload::Cached) => {
                    self = self.with_runtime_end().await?;
                }
                33..50 => {
                    match self.workload {
                        Workload::Counter | Workload::Cached => self.try_once().await?,
                        Workload::Readers => self.try_to_read_or_write().await?,
                        Workload::Permits => self.try_to_take_permit().await?,
                    }
                    continue;
                }
                _ => {}
            }
            let outcome = match self.workload {
                Workload::Counter | Workload::Cached => self.count().await?,
                Workload::Readers => self.read_or_write().await?,
                Workload::Permits => self.take_permit().await?,
            };
            match outcome {
                Ok(()) if last => return Ok(()),
                Ok(()) => {
                    let think = self.rng.u64(..8);
                    tokio::time::sleep(Duration::from_millis(think)).await;
                }
                Err(error) => {
                    note(&self.journal, FailureKind::of_attempt(error.kind()), &error);
                    tokio::time::sleep(FAILED_PAUSE).await;
                }
            }
        }
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
