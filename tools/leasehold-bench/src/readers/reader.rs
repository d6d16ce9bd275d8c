//! One process of `readers`: its tasks read and write under one read-write lock, through one client.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::leasehold::RwLock;
use fastrand::Rng;
use tokio::task::JoinSet;

use super::record::Record;
use super::report::Report;
use crate::Result;
use crate::contention::orders;
use crate::runtime::Flavour;

/// A task looks at the clock and at the record at one of so many reads, and at every write.
const LOOK: u32 = 16;

/// The arguments of the process, in this order; `tools/peers/README.md` explains them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReaderArgs {
    bench: String,
    runtime: Flavour,
    tasks: usize,
    lock: String,
    hold_us: u64,
    name: String,
    file: PathBuf,
    process: u32,
    reads: u32,
}

/// What the tasks do.
#[derive(Clone, Debug)]
struct Job {
    /// Of a hundred turns, those that read.
    reads: u32,
    hold: Duration,
    marked: Arc<AtomicBool>,
}

/// A task, as its process sees it.
#[derive(Debug, Default)]
struct Task {
    report: Mutex<Report>,
    /// When it asked to write, if it waits.
    asks_to_write: Mutex<Option<Instant>>,
}

/// Is such a process.
pub(crate) fn process(args: ReaderArgs) -> Result<()> {
    args.runtime.run(async move {
        let mut orders = orders();
        let url = orders.recv().await.ok_or("no URL on standard input")?;
        let client = ::leasehold::connect(&url).await?;
        println!("ready");
        let marked = Arc::new(AtomicBool::new(false));
        let hold = Duration::from_micros(args.hold_us);
        let job = Job { reads: args.reads, hold, marked: marked.clone() };
        let tasks: Vec<Arc<Task>> = (0..args.tasks).map(|_| Arc::default()).collect();
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                order = orders.recv() => match order.as_deref() {
                    Some("begin") => for (task, number) in tasks.iter().zip(1..) {
                        let (lock, record) = (client.rw_lock(&args.name), Record::open(&args.file)?);
                        let draw = Rng::with_seed(u64::from(args.process) << 32 | number);
                        running.spawn(again(lock, record, job.clone(), draw, task.clone()));
                    },
                    Some("mark") => marked.store(true, Ordering::SeqCst),
                    Some("enough") => marked.store(false, Ordering::SeqCst),
                    Some("end") => break,
                    Some(other) => return Err(format!("what is {other:?}?").into()),
                    None => return Ok(()),
                },
                // A task never ends, or fails.
                Some(failed) = running.join_next() => failed??,
            }
        }
        println!("{}", serde_json::to_string(&report(&tasks)?)?);
        running.shutdown().await;
        client.close().await;
        Ok(())
    })
}

/// What all tasks have seen by now.
fn report(tasks: &[Arc<Task>]) -> Result<Report> {
    let mut all = Report::default();
    for task in tasks {
        all.add(&*lock(&task.report)?);
        let waits = lock(&task.asks_to_write)?.map(|asked| asked.elapsed().as_micros() as u64);
        all.unfinished_us.extend(waits);
    }
    Ok(all)
}

fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().map_err(|_| "a task has panicked".into())
}

/// Reads and writes again and again.
async fn again(
    lock: RwLock,
    record: Record,
    job: Job,
    mut draw: Rng,
    task: Arc<Task>,
) -> Result<()> {
    loop {
        match draw.u32(0..100) < job.reads {
            true if draw.u32(0..LOOK) > 0 => read(&lock, &job, &task).await?,
            true => read_and_look(&lock, &record, &job, &task).await?,
            false => write(&lock, &record, &job, &task).await?,
        }
    }
}

async fn read(rw: &RwLock, job: &Job, task: &Task) -> Result<()> {
    let guard = rw.read().await?;
    pause(job.hold).await;
    guard.release().await?;
    lock(&task.report)?.reads += u64::from(job.marked.load(Ordering::Relaxed));
    Ok(())
}

async fn read_and_look(rw: &RwLock, record: &Record, job: &Job, task: &Task) -> Result<()> {
    let asked = Instant::now();
    let guard = rw.read().await?;
    let waited = asked.elapsed();
    let entered = record.begin_read(guard.token().get())?;
    pause(job.hold).await;
    let apart = record.end_read(entered)?;
    guard.release().await?;
    let mut report = lock(&task.report)?;
    report.look(entered.token_grew, apart);
    if job.marked.load(Ordering::Relaxed) {
        report.reads += 1;
        report.read_waits_us.push(waited.as_micros() as u64);
    }
    Ok(())
}

async fn write(rw: &RwLock, record: &Record, job: &Job, task: &Task) -> Result<()> {
    let asked = Instant::now();
    *lock(&task.asks_to_write)? = Some(asked);
    let guard = rw.write().await?;
    *lock(&task.asks_to_write)? = None;
    let waited = asked.elapsed();
    let entered = record.begin_write(guard.token().get())?;
    pause(job.hold).await;
    let apart = record.end_write(entered)?;
    guard.release().await?;
    let mut report = lock(&task.report)?;
    report.look(entered.token_grew, apart);
    if job.marked.load(Ordering::Relaxed) {
        report.writes += 1;
        report.write_waits_us.push(waited.as_micros() as u64);
    }
    Ok(())
}

async fn pause(hold: Duration) {
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
}
