//! A backend without a client, so that a test decides what is asked and when.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, Ended, Event, EventSink, Events, Grant, Origin,
    ReleaseRequest, Renewal, Renewed, Verdict,
};
use leasehold_core::{AttemptId, ClientId, Name, Result, State, Status, StoreUrl};
use leasehold_redis::RedisBackend;

static SIDES: AtomicU64 = AtomicU64::new(1);

/// A connection with its own client id.
pub(crate) struct Side {
    pub(crate) backend: RedisBackend,
    pub(crate) client: ClientId,
    events: Events,
    sequence: u32,
}

impl Side {
    pub(crate) async fn connect(url: &str) -> Self {
        let backend = leasehold_redis::connect(StoreUrl::parse(url).unwrap()).await.unwrap();
        let client = ClientId::from_bits(0xabc_0000 + SIDES.fetch_add(1, Ordering::Relaxed));
        let (sink, events) = EventSink::channel();
        backend.attach(client, sink);
        Self { backend, client, events, sequence: 0 }
    }

    /// Builds a waiting acquire for lock `a` by a new attempt.
    pub(crate) fn request(&mut self, ttl: Duration) -> AcquireRequest {
        self.sequence += 1;
        let attempt = AttemptId::new(self.client, self.sequence, 0);
        AcquireRequest::new(name(), attempt, ttl)
            .with_wait(true)
            .with_tokens(16)
            .with_origin(Origin::new("host", 1, None))
    }

    pub(crate) async fn acquire(&self, request: &AcquireRequest) -> Answer {
        self.backend.acquire(request.clone()).await.unwrap()
    }

    /// Acquires, and is granted the lease.
    pub(crate) async fn granted(&self, request: &AcquireRequest) -> Grant {
        match self.acquire(request).await {
            Answer::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    /// Acquires, and is queued.
    pub(crate) async fn queued(&self, request: &AcquireRequest) -> Duration {
        match self.acquire(request).await {
            Answer::Queued { ask_again, .. } => ask_again,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn release(&self, release: &ReleaseRequest) -> Result<Ended> {
        self.backend.release(release.clone()).await
    }

    pub(crate) async fn verdict(&self, release: &ReleaseRequest) -> Verdict {
        self.release(release).await.unwrap().verdict
    }

    pub(crate) async fn renew(&self, request: &AcquireRequest, grant: Grant) -> Result<Renewed> {
        let base = grant.tokens.base();
        let lease = Renewal::new(request.name.clone(), request.attempt, base, request.ttl);
        self.backend.renew(&[lease]).await.pop().unwrap()
    }

    pub(crate) async fn status(&self) -> Status {
        self.backend.status(&name()).await.unwrap()
    }

    /// Waits until the lock's lease has expired.
    pub(crate) async fn ended(&self) {
        until("the lease ends", || async { self.status().await.state == State::Free })
            .await
            .unwrap();
    }

    /// Waits for a grant by push.
    pub(crate) async fn pushed(&mut self) -> (AttemptId, Grant) {
        loop {
            match self.next_event().await {
                Event::Granted { attempt, grant, .. } => return (attempt, grant),
                Event::Freed { .. } => panic!("it is to ask what became of it"),
                _ => {}
            }
        }
    }

    pub(crate) async fn next_event(&mut self) -> Event {
        self.events.recv().await.unwrap()
    }
}

pub(crate) fn name() -> Name {
    Name::new("a").unwrap()
}

/// Builds the end of an attempt without a known grant.
pub(crate) fn unheard(request: &AcquireRequest) -> ReleaseRequest {
    let (name, attempt) = (request.name.clone(), request.attempt);
    ReleaseRequest::new(name, attempt)
}

/// Builds the end of a lease of which the first token was used.
pub(crate) fn release(request: &AcquireRequest, grant: Grant) -> ReleaseRequest {
    let base = grant.tokens.base();
    unheard(request).with_base(base).with_last(base)
}
