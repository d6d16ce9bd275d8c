//! A backend without a client: single calls, and its pushes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, Event, EventSink, Events, Grant, Origin, ReleaseRequest,
    Renewal, Renewed, Verdict,
};
use leasehold_core::{AttemptId, ClientId, Error, Name, Status, StoreUrl};
use leasehold_sql::SqlBackend;

pub(crate) struct Side {
    pub(crate) backend: Arc<SqlBackend>,
    pub(crate) events: Events,
    client: ClientId,
    sequence: u32,
}

pub(crate) fn name() -> Name {
    Name::new("a").unwrap()
}

impl Side {
    pub(crate) async fn connect(url: &str, number: u64) -> Self {
        let backend = leasehold_sql::connect(StoreUrl::parse(url).unwrap()).await.unwrap();
        let client = ClientId::from_bits(number);
        let (sink, events) = EventSink::channel();
        backend.attach(client, sink);
        Self { backend: Arc::new(backend), events, client, sequence: 0 }
    }

    pub(crate) fn request(&mut self, ttl: Duration) -> AcquireRequest {
        self.sequence += 1;
        AcquireRequest::new(name(), AttemptId::new(self.client, self.sequence, 0), ttl)
            .with_origin(Origin::new("host", 7, None))
    }

    pub(crate) async fn granted(&self, request: &AcquireRequest) -> Grant {
        match self.backend.acquire(request.clone()).await.unwrap() {
            Answer::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn queued(&self, request: &AcquireRequest) -> Option<u64> {
        match self.backend.acquire(request.clone()).await.unwrap() {
            Answer::Queued { place, .. } => place,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn renew(
        &self,
        request: &AcquireRequest,
        grant: Grant,
    ) -> Result<Renewed, Error> {
        let AcquireRequest { name, attempt, ttl, .. } = request.clone();
        let lease = Renewal::new(name, attempt, grant.tokens.base(), ttl);
        self.backend.renew(&[lease]).await.remove(0)
    }

    pub(crate) async fn verdict(&self, release: &ReleaseRequest) -> Verdict {
        self.backend.release(release.clone()).await.unwrap().verdict
    }

    pub(crate) async fn status(&self) -> Status {
        self.backend.status(&name()).await.unwrap()
    }

    /// Waits until a push grants the lock to this attempt.
    pub(crate) async fn pushed(&mut self, request: &AcquireRequest) -> Grant {
        loop {
            match self.events.recv().await.unwrap() {
                Event::Granted { attempt, grant, .. } if attempt == request.attempt => {
                    return grant;
                }
                _ => {}
            }
        }
    }
}

/// Builds the end of an attempt without a known grant.
pub(crate) fn unheard(request: &AcquireRequest) -> ReleaseRequest {
    ReleaseRequest::new(request.name.clone(), request.attempt)
}

pub(crate) fn release(request: &AcquireRequest, grant: Grant) -> ReleaseRequest {
    let base = Some(grant.tokens.base());
    unheard(request).with_base(base).with_last(base)
}
