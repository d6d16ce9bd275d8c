//! The story: a holder is paused past its lease, and writes late.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold::fence::redis::RedisFence;
use leasehold::fence::{Fence, Fenced};
use leasehold::{ErrorKind, Guard, Token};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;

use crate::connect;
use leasehold_test_servers::RedisServer;

/// The lock of all stories.
pub(crate) const LOCK: &str = "orders/555";

/// A holder with a runtime of its own, which is stopped past the lease, and its renewal too.
pub(crate) struct Paused {
    pub(crate) token: Token,
    resume: std::sync::mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Paused {
    /// Acquires the lock and pauses. After the pause it calls `late`, without another look at the
    /// guard.
    pub(crate) async fn start<L>(store: &'static str, late: L) -> Self
    where
        L: AsyncFnOnce(&Guard) + Send + 'static,
    {
        let (holds, held) = oneshot::channel();
        let (resume, resumed) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let client = leasehold::connect(store).await.unwrap();
                let lock = client.lock(LOCK).ttl(Duration::from_millis(200));
                let guard = lock.acquire().await.unwrap();
                holds.send(guard.token()).unwrap();
                // The pause: nothing of this runtime runs.
                resumed.recv().unwrap();
                late(&guard).await;
                assert!(!guard.is_valid());
                assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
            });
        });
        Self { token: held.await.unwrap(), resume, thread }
    }

    /// Ends the pause, and waits until the late write is done.
    pub(crate) async fn resume(self) {
        self.resume.send(()).unwrap();
        tokio::task::spawn_blocking(|| self.thread.join()).await.unwrap().unwrap();
    }
}

/// Two holders of one lock. The first is paused until the second has written; then its own write
/// goes out.
async fn story<W, L>(store: &'static str, write: impl FnOnce(Token) -> W, late: L) -> (Token, Token)
where
    W: Future<Output = ()>,
    L: AsyncFnOnce(&Guard) + Send + 'static,
{
    let paused = Paused::start(store, late).await;
    let first = paused.token;
    let client = leasehold::connect(store).await.unwrap();
    let guard = client.lock(LOCK).acquire().await.unwrap();
    let second = guard.token();
    assert!(second > first);
    write(second).await;
    paused.resume().await;
    assert!(guard.is_valid(), "the later holder is undisturbed");
    (first, second)
}

pub(crate) async fn a_paused_holders_late_write_is_refused_in_memory() {
    let fence = Arc::new(Fence::new());
    let (at_first, later) = (fence.clone(), fence.clone());
    let (first, second) = story(
        "memory:paused",
        |token| async move { at_first.check("555", token).unwrap() },
        async move |guard: &Guard| {
            let stale = later.check("555", guard.token()).unwrap_err();
            assert!(stale.highest > guard.token());
        },
    )
    .await;
    assert!(first < second);
    assert_eq!(fence.highest("555"), Some(second));
}

pub(crate) async fn a_paused_holders_late_write_is_refused_by_redis(
    mut connection: MultiplexedConnection,
    server: Arc<RedisServer>,
) {
    let mut writer = connection.clone();
    let (first, second) = story(
        "memory:paused-redis",
        |token| async move {
            let set = RedisFence::new().set_if_newer(&mut writer, "paused", "second", token);
            assert_eq!(set.await.unwrap(), Fenced::Written);
        },
        async move |guard: &Guard| {
            let mut own = connect(&server).await;
            let set = RedisFence::new().set_if_newer(&mut own, "paused", "first", guard.token());
            let stale = set.await.unwrap().into_result().unwrap_err();
            assert_eq!((stale.resource.as_str(), stale.offered), ("paused", guard.token()));
        },
    )
    .await;
    assert!(first < second);
    let value: String = connection.get("paused").await.unwrap();
    assert_eq!(value, "second");
}
