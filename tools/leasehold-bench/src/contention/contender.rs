//! One process of `contention`: its tasks compete for one lock. The benchmark tells it when the
//! measured window starts and ends.
//!
//! This file is also a part of `tools/peers/rslock`; `tools/peers/README.md` has the words.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::judge::{Before, Judge, Visit, file_of};

/// What goes wrong is only ever shown.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A lock that a task wants.
pub(crate) trait Wanted: Send + 'static {
    /// What it holds.
    type Held: Send;

    /// Waits for it; with the token, or 0 where there is none.
    fn acquire(&self) -> impl Future<Output = Result<(Self::Held, u64)>> + Send;

    /// The slot that it holds, from 0: that of a semaphore.
    fn slot(_: &Self::Held) -> u32 {
        0
    }

    /// Gives it back.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<()>> + Send;
}

/// What the tasks of a process do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) hold: Duration,
    pub(crate) file: &'a Path,
    /// The number of this process, from 1.
    pub(crate) process: u32,
    /// How many may hold at a time: more than 1 for a semaphore.
    pub(crate) slots: u32,
    /// Others lock records of the file, as Java does.
    pub(crate) records: bool,
}

impl Job<'_> {
    /// The judges of all slots, for a task.
    fn judges(&self, task: u32) -> Result<Vec<Judge>> {
        let open = |slot| {
            let judge = Judge::open(&file_of(self.file, slot), self.process, task)?;
            Ok(if self.records { judge.with_records() } else { judge })
        };
        (0..self.slots).map(open).collect()
    }
}

/// The lines on standard input, from now on.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}

/// Lets a task want each of these locks, as the orders say; returns the report when they say `end`,
/// and nothing when they stop before.
pub(crate) async fn contend<W: Wanted>(
    locks: Vec<W>,
    job: Job<'_>,
    orders: &mut mpsc::UnboundedReceiver<String>,
) -> Result<Option<String>> {
    let marked = Arc::new(AtomicBool::new(false));
    let (end, ended) = watch::channel(false);
    let mut locks = Some(locks);
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => match order.as_deref() {
                Some("begin") => for (lock, number) in locks.take().into_iter().flatten().zip(1..) {
                    let judges = job.judges(number)?;
                    tasks.spawn(task(lock, judges, job.hold, marked.clone(), ended.clone()));
                },
                Some("mark") => marked.store(true, Ordering::SeqCst),
                Some("enough") => marked.store(false, Ordering::SeqCst),
                Some("end") => break,
                Some(other) => return Err(format!("what is {other:?}?").into()),
                None => return Ok(None),
            },
            // A task goes on until the end, or fails.
            Some(failed) = tasks.join_next() => drop(failed??),
        }
    }
    end.send_replace(true);
    let mut all = Vec::new();
    while let Some(tally) = tasks.join_next().await {
        all.push(tally??);
    }
    Ok(Some(report(&all)))
}

/// What a task has seen between mark and enough; visits, overlaps and fallen tokens since the beginning.
#[derive(Debug, Default)]
struct Tally {
    count: u64,
    /// Only for hand-offs: a task that acquires the lock again immediately did not wait.
    waits_us: Vec<u128>,
    unfinished_us: Vec<u128>,
    handoffs: u64,
    local: u64,
    visits: u64,
    overlaps: u64,
    fallen: u64,
}

async fn task<W: Wanted>(
    lock: W,
    judges: Vec<Judge>,
    hold: Duration,
    marked: Arc<AtomicBool>,
    mut ended: watch::Receiver<bool>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    loop {
        let asked = Instant::now();
        let (held, token) = tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => {
                tally.unfinished_us.push(asked.elapsed().as_micros());
                return Ok(tally);
            }
            acquired = lock.acquire() => acquired?,
        };
        let waited = asked.elapsed();
        let judge = judges.get(W::slot(&held) as usize).ok_or("a slot beyond the limit")?;
        let visit = judge.enter(token)?;
        tally.add(visit, marked.load(Ordering::Relaxed).then_some(waited));
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        judge.leave(visit)?;
        lock.release(held).await?;
    }
}

impl Tally {
    fn add(&mut self, visit: Visit, counted: Option<Duration>) {
        self.visits += 1;
        self.count += u64::from(counted.is_some());
        match (visit, counted) {
            (Visit::Overlap, _) => self.overlaps += 1,
            (Visit::Alone { before, token_grew }, counted) => {
                self.fallen += u64::from(!token_grew);
                if let (Some(waited), Before::Local | Before::Remote) = (counted, before) {
                    self.waits_us.push(waited.as_micros());
                    self.handoffs += 1;
                    self.local += u64::from(before == Before::Local);
                }
            }
        }
    }
}

/// One line of JSON.
fn report(all: &[Tally]) -> String {
    let list = |numbers: &mut dyn Iterator<Item = u128>| {
        let mut text = String::new();
        for (at, number) in numbers.enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{number}");
        }
        format!("[{text}]")
    };
    let sum = |of: fn(&Tally) -> u64| all.iter().map(of).sum::<u64>();
    let counts = list(&mut all.iter().map(|tally| u128::from(tally.count)));
    let waits = list(&mut all.iter().flat_map(|tally| tally.waits_us.iter().copied()));
    let unfinished = list(&mut all.iter().flat_map(|tally| tally.unfinished_us.iter().copied()));
    format!(
        "{{\"counts\":{counts},\"waits_us\":{waits},\"unfinished_us\":{unfinished},\
         \"handoffs\":{},\"local\":{},\"visits\":{},\"overlaps\":{},\"fallen\":{}}}",
        sum(|tally| tally.handoffs),
        sum(|tally| tally.local),
        sum(|tally| tally.visits),
        sum(|tally| tally.overlaps),
        sum(|tally| tally.fallen),
    )
}
