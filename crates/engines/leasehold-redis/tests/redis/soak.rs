//! 1,000 waiters in 10 processes on one lock, while processes are killed and stopped, connections
//! are cut, and the server is restarted with and without its data.
//!
//! It takes 15 seconds; `LEASEHOLD_SOAK=600` runs for ten minutes.

mod bound;
mod judge;
mod process;
mod watch;

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_test_servers::{Proxy, RedisServer, RedisSettings};
use tempfile::TempDir;

use self::bound::Bound;
use self::judge::{Judge, the_judge_tells_overlaps_from_late_comers};
pub(crate) use self::process::Role;
use self::watch::Watch;
use crate::{Test, test};

pub(crate) const TESTS: &[Test] = &[
    test!(the_judge_tells_overlaps_from_late_comers),
    test!(everybody_alive_gets_the_lock_whatever_fails),
];

const NAME: &str = "soak";
const PROCESSES: u32 = 10;
const TASKS: u32 = 100;
const TTL: Duration = Duration::from_secs(1);
/// How long a process is stopped: longer than its lease lasts.
const STOPPED: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(20);

/// How long the soak runs.
pub(crate) fn duration() -> Duration {
    let seconds = std::env::var("LEASEHOLD_SOAK").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(15))
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// In memory, if the system has such a directory.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("leasehold-soak-").tempdir_in(folder).unwrap()
}

async fn everybody_alive_gets_the_lock_whatever_fails() {
    tokio::task::spawn_blocking(|| Soak::start().run()).await.unwrap();
}

struct Soak {
    server: RedisServer,
    proxy: Proxy,
    folder: TempDir,
    judge: Judge,
    processes: Vec<leasehold_test_servers::Process>,
    /// The stopped process, and until when.
    stopped: Option<(usize, u64)>,
    /// When holders from before the server's loss of data are not excused any more.
    excused_until: Option<u64>,
    watch: Watch,
    bound: Bound,
}

impl Soak {
    fn start() -> Self {
        // Written before the answer, though not to the disk: a killed server loses nothing.
        let server =
            RedisServer::start(RedisSettings::new().append_only().line("appendfsync no")).unwrap();
        let (proxy, folder) = (Proxy::start(&server).unwrap(), folder());
        let judge = Judge::create(&folder.path().join("page")).unwrap();
        fs::write(folder.path().join("log"), "").unwrap();
        let watch = Watch::of(&server);
        let mut soak = Self {
            server,
            proxy,
            folder,
            judge,
            processes: Vec::new(),
            stopped: None,
            excused_until: None,
            watch,
            bound: Bound::default(),
        };
        soak.processes = (1..=PROCESSES).map(|number| soak.process(number)).collect();
        soak
    }

    fn process(&self, number: u32) -> leasehold_test_servers::Process {
        let (judge, log) = (self.folder.path().join("page"), self.folder.path().join("log"));
        Role { url: self.proxy.url(), number, judge, log }.start().unwrap()
    }

    fn run(mut self) {
        let (start, seconds) = (now_us(), duration().as_secs());
        println!("soak: {seconds} s, {PROCESSES} processes with {TASKS} tasks each");
        for second in 1..=seconds {
            while now_us() < start + second * 1_000_000 {
                self.step();
            }
            self.disturb(second);
        }
        while self.stopped.is_some() || self.excused_until.is_some() {
            self.step();
        }
        self.judge.with(|page| page.ending = 1).unwrap();
        let ending = now_us();
        while !self.processes.iter_mut().all(|process| process.ended().is_some()) {
            self.step();
            self.bound.check("the last waiters", (ending, now_us()), &self.watch);
        }
        self.verdict();
    }

    /// Checks once, and does what is due.
    fn step(&mut self) {
        sleep(STEP);
        let stopped = self.stopped.map(|(at, _)| self.processes[at].pid());
        let running = self.processes.iter().map(leasehold_test_servers::Process::pid);
        let running: Vec<u32> = running.filter(|pid| Some(*pid) != stopped).collect();
        self.watch.look(&running, stopped.is_some());
        if let Some((at, until)) = self.stopped.filter(|(_, until)| *until <= now_us()) {
            self.processes[at].resume().unwrap();
            self.bound.disturbed((until, now_us()), Duration::ZERO);
            self.stopped = None;
        }
        if self.excused_until.is_some_and(|until| until <= now_us()) {
            self.judge.with(|page| page.losses += 1).unwrap();
            self.excused_until = None;
        }
    }

    /// Chooses the event of this second. The first process is neither killed nor stopped.
    fn disturb(&mut self, second: u64) {
        let any = |from: usize| fastrand::usize(from..PROCESSES as usize);
        if second % 5 == 1 && self.stopped.is_none() {
            let at = any(1);
            let process = &self.processes[at];
            // No process is stopped while it reads the page.
            self.judge.with(|_| process.stop().unwrap()).unwrap();
            self.stopped = Some((at, now_us() + STOPPED.as_micros() as u64));
        }
        if second % 5 == 3 {
            for connection in self.proxy.connections() {
                if fastrand::bool() {
                    self.proxy.kill(connection);
                }
            }
            self.bound.disturbed((now_us(), now_us()), bound::CUT);
        }
        if second % 15 == 5 {
            let from = now_us();
            self.server.restart().unwrap();
            self.bound.disturbed((from, now_us()), bound::RESTART);
        }
        if second % 15 == 10 && self.excused_until.is_none() {
            self.judge.with(|page| page.losses += 1).unwrap();
            let from = now_us();
            self.server.restart_empty().unwrap();
            self.bound.disturbed((from, now_us()), bound::RESTART);
            self.excused_until = Some(now_us() + TTL.as_micros() as u64);
        }
        let killed = match any(2) {
            at if self.stopped.is_some_and(|(stopped, _)| stopped == at) => 1,
            at => at,
        };
        self.processes[killed].kill();
        self.processes[killed] = self.process(killed as u32 + 1);
    }

    fn verdict(mut self) {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let with = |word: &str| -> Vec<&str> {
            log.lines().filter_map(|line| line.strip_prefix(word)).collect()
        };
        assert!(with("wrong ").is_empty(), "{:?}", with("wrong "));
        assert_eq!(with("done").len() as u32, PROCESSES);
        let mut longest = 0;
        for wait in with("wait ") {
            let (from, to) = wait.split_once(' ').unwrap();
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            longest = longest.max(to - from);
            self.bound.check("a waiter", (from, to), &self.watch);
        }
        let page = self.judge.with(|page| *page).unwrap();
        println!(
            "soak: {} visits, {} of them of another process than the last; {} came too late; \
             longest wait {} ms, nearest to its bound {:.0} %",
            page.visits,
            page.remote,
            page.late,
            longest / 1000,
            self.bound.nearest * 100.0,
        );
        assert_eq!((page.overlaps, page.fallen), (0, 0), "overlaps, or tokens that fell");
        self.watch.none_held_for_longer_than_its_lease();
        let keys = self.server.admin(&["KEYS", "*"]).unwrap();
        let keys: Vec<String> = keys.items().iter().map(|key| key.text()).collect();
        let left = |end: &str| keys.iter().any(|key| key.ends_with(end));
        assert!(!left(":q"), "a waiter is left in the queue: {keys:?}");
    }
}
