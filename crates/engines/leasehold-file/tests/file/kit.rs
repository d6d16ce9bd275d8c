//! What the tests share: a backend with its events, asks, and waiting until something is so.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, EventSink, Grant, Mode, Origin, ReleaseRequest, Renewal,
    Renewed, Verdict,
};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, ClientId, Deadline, Error, Name, Result, State, Status, Token};
use leasehold_file::FileBackend;
use tokio::sync::watch;

/// How long anything may take that should happen at once.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(500);
/// How long anything may take on a machine that is busy with other things.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A backend, and what it says.
#[derive(Clone)]
pub(crate) struct Kit {
    pub(crate) backend: Arc<FileBackend>,
    events: watch::Receiver<u64>,
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// A new attempt; those of different processes differ too.
pub(crate) fn attempt() -> AttemptId {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let client = ClientId::from_bits(std::process::id().into());
    AttemptId::new(client, COUNT.fetch_add(1, Ordering::Relaxed), 0)
}

pub(crate) fn request(lock: &str, attempt: AttemptId, wait: bool) -> AcquireRequest {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let origin = Origin::new(host, std::process::id(), Some("test".into()));
    AcquireRequest::new(name(lock), attempt, Duration::from_secs(30))
        .with_wait(wait)
        .with_origin(origin)
}

pub(crate) fn release(lock: &str, attempt: AttemptId, base: Option<Token>) -> ReleaseRequest {
    ReleaseRequest::new(name(lock), attempt).with_base(base).with_last(base)
}

/// Runs a future that never waits, as all of this backend's without a runtime.
pub(crate) fn inline<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a call without a runtime has to wait"),
    }
}

/// Until `done` gives something, at most `limit`.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut done: impl AsyncFnMut() -> Option<T>,
) -> T {
    let clock = Clock::system();
    let deadline = Deadline::after(clock.now(), limit);
    loop {
        if let Some(value) = done().await {
            return value;
        }
        assert!(!deadline.has_passed(clock.now()), "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Open descriptors of this process that lead below `dir`.
pub(crate) fn descriptors(dir: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.starts_with(dir)).count()
}

/// All files below `dir`, by path relative to it.
pub(crate) fn walk(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(here) = todo.pop() {
        for entry in std::fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.push(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

impl Kit {
    pub(crate) fn open(dir: &Path) -> Self {
        Self::with_clock(dir, Clock::system())
    }

    /// With a clock that a test moves, what takes time takes none of the machine's.
    pub(crate) fn with_clock(dir: &Path, clock: Clock) -> Self {
        let backend = Arc::new(FileBackend::open(dir, clock).unwrap());
        let (sink, mut events) = EventSink::channel();
        backend.attach(ClientId::from_bits(1), sink);
        let (heard, receiver) = watch::channel(0);
        tokio::spawn(async move {
            while events.recv().await.is_some() {
                heard.send_modify(|count| *count += 1);
            }
        });
        Self { backend, events: receiver }
    }

    /// How many events there were.
    pub(crate) fn heard(&self) -> u64 {
        *self.events.borrow()
    }

    pub(crate) async fn ask(&self, lock: &str, attempt: AttemptId, wait: bool) -> Result<Answer> {
        self.backend.acquire(request(lock, attempt, wait)).await
    }

    /// One try, without waiting.
    pub(crate) async fn try_lock(&self, lock: &str) -> Option<(AttemptId, Grant)> {
        let attempt = attempt();
        match self.ask(lock, attempt, false).await.unwrap() {
            Answer::Granted(grant) => Some((attempt, grant)),
            Answer::Busy { .. } => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn refused(&self, lock: &str) -> Error {
        self.ask(lock, attempt(), false).await.unwrap_err()
    }

    /// Waits for the lock as a client does.
    pub(crate) async fn lock(&self, lock: &str) -> (AttemptId, Token) {
        let attempt = attempt();
        (attempt, self.lock_as(lock, attempt).await)
    }

    pub(crate) async fn lock_as(&self, lock: &str, attempt: AttemptId) -> Token {
        self.obtain(request(lock, attempt, true)).await
    }

    /// Waits for the lock to read.
    pub(crate) async fn read(&self, lock: &str) -> (AttemptId, Token) {
        let attempt = attempt();
        (attempt, self.obtain(request(lock, attempt, true).with_mode(Mode::Shared)).await)
    }

    async fn obtain(&self, request: AcquireRequest) -> Token {
        let mut events = self.events.clone();
        loop {
            events.mark_unchanged();
            let pause = match self.backend.acquire(request.clone()).await.unwrap() {
                Answer::Granted(grant) => return grant.tokens.base(),
                Answer::Queued { ask_again, .. } | Answer::Busy { ask_again: Some(ask_again) } => {
                    ask_again
                }
                other => panic!("{other:?}"),
            };
            let _ = tokio::time::timeout(pause, events.changed()).await;
        }
    }

    pub(crate) async fn release(&self, lock: &str, attempt: AttemptId, base: Token) -> Verdict {
        self.backend.release(release(lock, attempt, Some(base))).await.unwrap().verdict
    }

    /// Ends an attempt that never heard of a grant.
    pub(crate) async fn end_attempt(&self, lock: &str, attempt: AttemptId) -> Verdict {
        let release = release(lock, attempt, None).with_suspect(true);
        self.backend.release(release).await.unwrap().verdict
    }

    pub(crate) async fn renew(&self, lock: &str, attempt: AttemptId, base: Token) -> Renewed {
        let renewal = Renewal::new(name(lock), attempt, base, Duration::from_secs(30));
        self.backend.renew(&[renewal]).await.remove(0).unwrap()
    }

    pub(crate) async fn status(&self, lock: &str) -> Status {
        self.backend.status(&name(lock)).await.unwrap()
    }

    pub(crate) async fn is_held(&self, lock: &str) -> bool {
        self.status(lock).await.state == State::Held
    }
}
