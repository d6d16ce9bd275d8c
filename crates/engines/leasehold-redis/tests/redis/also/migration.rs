//! A fleet of processes that count in a file moves from redis-py to our own locks, one process after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use leasehold_core::{Client, StoreUrl};
use leasehold_test_servers::{Needs, RedisServer};
use rustix::fs::{FlockOperation, flock};

use super::{backend, is_refused, pass_five_minutes};
use crate::wire::{number, shown};
use crate::{connect, plain, secs};

const PROCESSES: usize = 8;
/// How often the fleet counts before the next process is replaced.
const BETWEEN: u64 = 6;
const NAME: &str = "counter";
const RECORD: &str = "leasehold:{counter}";
/// What tells the process its store, its options and the folder.
const ROLE: &str = "LEASEHOLD_MIGRATION_PROCESS";

/// A process of redis-py. It counts until its standard input ends.
const COUNT: &str = r"
import fcntl, os, sys, threading, redis
port, folder = int(sys.argv[1]), sys.argv[2]
server, over = redis.Redis(port=port), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
while not over.is_set():
    lock = server.lock('counter', timeout=60, sleep=0.02)
    lock.acquire()
    judge = open(folder + '/judge')
    try:
        fcntl.flock(judge, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print('overlap', flush=True)
    with open(folder + '/number') as file:
        number = int(file.read())
    with open(folder + '/number', 'w') as file:
        file.write(str(number + 1))
    print('counted', flush=True)
    judge.close()
    lock.release()
";

/// What this process does, if a test started it for that.
pub(crate) struct Role {
    url: String,
    options: String,
    folder: PathBuf,
}

impl Role {
    pub(crate) fn told() -> Option<Self> {
        let text = std::env::var(ROLE).ok()?;
        let mut parts = text.splitn(3, ' ').map(str::to_owned);
        let (url, options) = (parts.next()?, parts.next()?);
        Some(Self { url, options, folder: parts.next()?.into() })
    }

    pub(crate) fn play(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(self.count());
        ExitCode::SUCCESS
    }

    /// Counts until the standard input ends.
    async fn count(self) {
        let over = Arc::<AtomicBool>::default();
        std::thread::spawn({
            let over = over.clone();
            move || {
                std::io::stdin().read_to_end(&mut Vec::new()).ok();
                over.store(true, Ordering::SeqCst);
            }
        });
        let client = self.client().await;
        let (judge, path) = (self.folder.join("judge"), self.folder.join("number"));
        while !over.load(Ordering::SeqCst) {
            let guard = client.lock(NAME).ttl(secs(60)).acquire_within(secs(60)).await.unwrap();
            let judge = std::fs::File::open(&judge).unwrap();
            if flock(&judge, FlockOperation::NonBlockingLockExclusive).is_err() {
                println!("overlap");
            }
            let number: u64 = std::fs::read_to_string(&path).unwrap().parse().unwrap();
            std::fs::write(&path, (number + 1).to_string()).unwrap();
            println!("counted");
            drop(judge);
            guard.release().await.unwrap();
        }
        client.close().await;
    }

    async fn client(&self) -> Client {
        match self.options.split_once('=') {
            Some(("wire", _)) => {
                let url = StoreUrl::parse(&format!("{}?{}", self.url, self.options)).unwrap();
                Client::new(Arc::new(leasehold_redis::connect_with_wire(url).await.unwrap()))
                    .unwrap()
            }
            Some(("also", format)) => {
                Client::new(Arc::new(backend(&self.url, format).await)).unwrap()
            }
            _ => connect(&self.url).await,
        }
    }
}

/// What the processes have said.
#[derive(Clone, Default)]
struct Said {
    counted: Arc<AtomicU64>,
    overlaps: Arc<AtomicU64>,
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    reader: JoinHandle<()>,
}

impl Process {
    fn start(mut command: Command, said: &Said) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let said = said.clone();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                match line.as_str() {
                    "counted" => said.counted.fetch_add(1, Ordering::SeqCst),
                    _ => said.overlaps.fetch_add(1, Ordering::SeqCst),
                };
            }
        });
        Self { child, stdin, reader }
    }

    fn python(server: &RedisServer, folder: &Path, said: &Said) -> Self {
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", COUNT, &server.address().port().to_string()]).arg(folder);
        Self::start(python, said)
    }

    fn ours(server: &RedisServer, options: &str, folder: &Path, said: &Said) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let options = if options.is_empty() { "none" } else { options };
        program.env(ROLE, format!("{} {options} {}", server.url(), folder.display()));
        Self::start(program, said)
    }

    /// Lets it finish what it does.
    fn end(self) {
        let Self { mut child, mut stdin, reader } = self;
        stdin.flush().ok();
        drop(stdin);
        let status = child.wait().unwrap();
        reader.join().unwrap();
        assert!(status.success(), "{status}");
    }
}

/// The processes, and a server that refuses what would lose a count.
pub(super) async fn eight_processes_move_from_redis_py_one_after_the_other() {
    if Needs::RedisPy.is_skipped() {
        return;
    }
    let server = plain();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("number"), "0").unwrap();
    std::fs::write(folder.path().join("judge"), "").unwrap();
    let (said, native) = (Said::default(), connect(&server.url()).await);
    let mut fleet: Vec<Process> =
        (0..PROCESSES).map(|_| Process::python(&server, folder.path(), &said)).collect();
    for options in ["wire=set-nx", "also=set-nx", ""] {
        for process in &mut fleet {
            let before = said.counted.load(Ordering::SeqCst);
            leasehold_conformance::until("the fleet counts", || async {
                said.counted.load(Ordering::SeqCst) >= before + BETWEEN
            })
            .await
            .unwrap();
            let new = Process::ours(&server, options, folder.path(), &said);
            let old = std::mem::replace(process, new);
            tokio::task::spawn_blocking(|| old.end()).await.unwrap();
        }
        match options {
            "" => {}
            "wire=set-nx" => assert!(is_refused(&native, NAME).await, "wire is left too early"),
            _ => {
                assert!(is_refused(&native, NAME).await, "the mark of the last one lasts");
                pass_five_minutes(&server, RECORD, "set-nx");
                leasehold_conformance::until("the native lock is in use", || async {
                    shown(&server, &["GETRANGE", RECORD, "0", "1"]) == "L1"
                })
                .await
                .unwrap();
            }
        }
    }
    let ending = move || fleet.into_iter().for_each(Process::end);
    tokio::task::spawn_blocking(ending).await.unwrap();
    assert_eq!(said.overlaps.load(Ordering::SeqCst), 0, "two held at the same time");
    let counted: u64 =
        std::fs::read_to_string(folder.path().join("number")).unwrap().parse().unwrap();
    assert_eq!(counted, said.counted.load(Ordering::SeqCst), "a count was lost");
    assert_eq!(number(&server, &["EXISTS", NAME]), 0);
}
