//! Many clients that lock and unlock, and what their resource sees: overlaps, tokens, and the
//! longest time without a visit.
//!
//! Two visitors that are inside at the same time overlap only if the first is still valid when it
//! leaves. Visits are short; [`Crowd::stay`] keeps one visitor of each lock inside while the server
//! fails.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_conformance::until;
use leasehold_core::{Client, Guard, Retry};
use tokio::task::JoinHandle;

use crate::{secs, try_connect};

/// What was seen of one lock, or of all locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) visits: u64,
    pub(crate) overlaps: u64,
    /// Tokens that were not larger than the previous token.
    pub(crate) fallen: u64,
    /// The longest time without a visit.
    pub(crate) gap: Duration,
    /// The errors of acquires, and how often each occurred.
    pub(crate) errors: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Judge {
    seen: Seen,
    token: u64,
    last: Instant,
    /// The tokens of the visitors inside, and whether another visitor came after them.
    inside: HashMap<u64, bool>,
    /// A visitor inside does not leave.
    stays: bool,
}

impl Judge {
    fn enter(&mut self, guard: &Guard) -> Option<u64> {
        let token = guard.token().get();
        // It came too late, and detects that.
        if !guard.is_valid() {
            return None;
        }
        self.seen.visits += 1;
        self.seen.fallen += u64::from(token <= self.token);
        self.token = self.token.max(token);
        self.seen.gap = self.seen.gap.max(self.last.elapsed());
        self.last = Instant::now();
        self.inside.values_mut().for_each(|passed| *passed = true);
        self.inside.insert(token, false);
        Some(token)
    }

    fn leave(&mut self, token: u64, valid: bool) {
        let passed = self.inside.remove(&token).unwrap_or_default();
        self.seen.overlaps += u64::from(passed && valid);
    }
}

/// Earlier clients keep the machine busy: retry if the error says so.
async fn connected(url: &str) -> Client {
    loop {
        match try_connect(url).await {
            Ok(client) => return client,
            Err(error) => assert_eq!(error.retry(), Retry::Useful, "{error}"),
        }
    }
}

/// Running clients.
pub(crate) struct Crowd {
    judges: Vec<Arc<Mutex<Judge>>>,
    going: Arc<AtomicBool>,
    staying: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Starts this many clients, spread over these locks, each with its own connection.
    pub(crate) async fn start(url: &str, clients: usize, names: &[String]) -> Self {
        let going = Arc::new(AtomicBool::new(true));
        let staying = Arc::new(AtomicBool::new(false));
        let judge = || Judge {
            seen: Seen::default(),
            token: 0,
            last: Instant::now(),
            inside: HashMap::new(),
            stays: false,
        };
        let judges: Vec<_> = names.iter().map(|_| Arc::new(Mutex::new(judge()))).collect();
        let mut tasks = Vec::new();
        for number in 0..clients {
            let client = connected(url).await;
            let at = number % names.len();
            let visitor = Visitor {
                name: names[at].clone(),
                judge: judges[at].clone(),
                going: going.clone(),
                staying: staying.clone(),
            };
            tasks.push(tokio::spawn(visitor.visits(client)));
        }
        Self { judges, going, staying, tasks }
    }

    /// Returns when each lock has a visitor that does not leave before [`leave`](Self::leave),
    /// unless its lease ends or another visitor enters.
    pub(crate) async fn stay(&self) {
        self.staying.store(true, Ordering::Relaxed);
        until("a visitor stays in each lock", || async {
            self.judges.iter().all(|judge| judge.lock().unwrap().stays)
        })
        .await
        .unwrap();
    }

    /// Makes visits short again.
    pub(crate) fn leave(&self) {
        self.staying.store(false, Ordering::Relaxed);
    }

    /// Waits until every lock has had this many more visits.
    pub(crate) async fn progress(&self, more: u64) {
        let aims: Vec<u64> =
            self.judges.iter().map(|judge| judge.lock().unwrap().seen.visits + more).collect();
        let start = Instant::now();
        while !self
            .judges
            .iter()
            .zip(&aims)
            .all(|(judge, aim)| judge.lock().unwrap().seen.visits >= *aim)
        {
            assert!(start.elapsed() < secs(60), "no progress: {:?}", self.seen());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns what was seen so far, of all locks together.
    pub(crate) fn seen(&self) -> Seen {
        let mut all = Seen::default();
        for judge in &self.judges {
            let seen = judge.lock().unwrap().seen.clone();
            all.visits += seen.visits;
            all.overlaps += seen.overlaps;
            all.fallen += seen.fallen;
            all.gap = all.gap.max(seen.gap);
            seen.errors.into_iter().for_each(|(what, n)| *all.errors.entry(what).or_default() += n);
        }
        all
    }

    /// Lets all clients finish.
    pub(crate) async fn stop(self) -> Seen {
        self.going.store(false, Ordering::Relaxed);
        let all = async {
            for task in &mut { self.tasks } {
                task.await.unwrap();
            }
        };
        tokio::time::timeout(secs(60), all).await.expect("a client hangs");
        let judges = self.judges;
        Self { judges, going: self.going, staying: self.staying, tasks: Vec::new() }.seen()
    }
}

/// Runs one client.
struct Visitor {
    name: String,
    judge: Arc<Mutex<Judge>>,
    going: Arc<AtomicBool>,
    staying: Arc<AtomicBool>,
}

impl Visitor {
    async fn visits(self, client: Client) {
        let lock = client.lock(&self.name).ttl(secs(3));
        while self.going.load(Ordering::Relaxed) {
            match lock.acquire_within(secs(30)).await {
                Ok(guard) => {
                    let token = self.judge.lock().unwrap().enter(&guard);
                    tokio::task::yield_now().await;
                    if let Some(token) = token {
                        self.stay(&guard, token).await;
                        self.judge.lock().unwrap().leave(token, guard.is_valid());
                    }
                    // A lost release depends on the server alone.
                    guard.release().await.ok();
                }
                Err(error) => {
                    let mut judge = self.judge.lock().unwrap();
                    *judge.seen.errors.entry(error.to_string()).or_default() += 1;
                }
            }
        }
    }

    async fn stay(&self, guard: &Guard, token: u64) {
        while self.staying.load(Ordering::Relaxed) && guard.is_valid() {
            {
                let mut judge = self.judge.lock().unwrap();
                if judge.inside[&token] {
                    return;
                }
                judge.stays = true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
