//! Readers announce their token, so that the late write of a paused writer is refused; without that
//! it passes.

use std::sync::Arc;

use http::{Method, StatusCode};
use leasehold::fence::http::FenceLayer;
use leasehold::fence::redis::RedisFence;
use leasehold::fence::{Fence, Fenced, Stale};
use leasehold::{ErrorKind, Guard, ReadGuard};
use leasehold_test_servers::RedisServer;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::connect;
use crate::http::{echo, put, request, send};
use crate::paused::{LOCK, Paused};

/// Two clients that read, after the writer before them was paused past its lease.
struct Readers {
    paused: Paused,
    guards: [ReadGuard; 2],
}

impl Readers {
    async fn start<L>(store: &'static str, late: L) -> Self
    where
        L: AsyncFnOnce(&Guard) + Send + 'static,
    {
        let paused = Paused::start(store, late).await;
        let first = leasehold::connect(store).await.unwrap().rw_lock(LOCK).read().await.unwrap();
        let second = leasehold::connect(store).await.unwrap().rw_lock(LOCK).read().await.unwrap();
        assert!(first.token() > paused.token);
        assert_eq!(first.token(), second.token());
        Self { paused, guards: [first, second] }
    }

    /// Lets the writer write while the clients read.
    async fn end(self) {
        self.paused.resume().await;
        assert!(self.guards.iter().all(|guard| guard.is_valid()), "the readers are undisturbed");
    }
}

pub(crate) async fn a_late_write_is_refused_in_memory_once_readers_announce() {
    for (announced, store) in [(false, "memory:silent"), (true, "memory:announced")] {
        let fence = Arc::new(Fence::new());
        let at_writer = fence.clone();
        let readers = Readers::start(store, async move |guard: &Guard| {
            let late = at_writer.check("555", guard.token());
            assert_eq!(late.is_err(), announced, "{late:?}");
        })
        .await;
        for guard in readers.guards.iter().filter(|_| announced) {
            guard.announce(&*fence, "555").await.unwrap();
        }
        readers.end().await;
    }
}

pub(crate) async fn a_late_write_is_refused_by_http_once_readers_announce() {
    for (announced, store) in [(false, "memory:silent-http"), (true, "memory:announced-http")] {
        let service = echo(FenceLayer::new());
        let at_writer = service.clone();
        let readers = Readers::start(store, async move |guard: &Guard| {
            let late = put(&at_writer, "/orders/555", guard.token().get()).await.status();
            let refused = StatusCode::PRECONDITION_FAILED;
            assert_eq!(late, if announced { refused } else { StatusCode::OK });
        })
        .await;
        for guard in &readers.guards {
            let token = announced.then_some(guard.token().get());
            let read = send(&service, request(Method::GET, "/orders/555", token)).await;
            assert_eq!(read.status(), StatusCode::OK);
        }
        readers.end().await;
    }
}

pub(crate) async fn a_late_write_is_refused_by_redis_once_readers_announce(
    mut connection: MultiplexedConnection,
    server: Arc<RedisServer>,
) {
    let fence = RedisFence::new();
    for (announced, store) in [(false, "memory:silent-redis"), (true, "memory:announced-redis")] {
        let key = store;
        let () = connection.set(key, "before").await.unwrap();
        let at_writer = server.clone();
        let readers = Readers::start(store, async move |guard: &Guard| {
            let mut own = connect(&at_writer).await;
            let late = fence.set_if_newer(&mut own, key, "late", guard.token()).await.unwrap();
            assert_eq!(late != Fenced::Written, announced, "{late:?}");
        })
        .await;
        for guard in readers.guards.iter().filter(|_| announced) {
            guard.announce(&fence, (&mut connection, key)).await.unwrap();
        }
        readers.end().await;
        let value: String = connection.get(key).await.unwrap();
        assert_eq!(value, if announced { "before" } else { "late" });
    }
}

/// A reader that has lost its lock learns it from the fence.
pub(crate) async fn a_lost_reader_cannot_announce() {
    let client = leasehold::connect("memory:lost-reader").await.unwrap();
    let fence = Fence::new();
    let read = client.rw_lock(LOCK).read().await.unwrap();
    client.rw_lock(LOCK).force_release(read.token()).await.unwrap();
    let write = client.rw_lock(LOCK).write().await.unwrap();
    write.announce(&fence, "555").await.unwrap();
    let error = read.announce(&fence, "555").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    let stale = std::error::Error::source(&error).unwrap().downcast_ref::<Stale>().unwrap();
    assert_eq!((stale.offered, stale.highest), (read.token(), write.token()));
}
