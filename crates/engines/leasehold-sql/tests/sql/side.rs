//! A backend without a client: single calls, and its pushes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    Answer, Ask, Backend, End, Event, EventSink, Grant, Mode, Origin, Renewal, Renewed, Status,
    Verdict,
};
use leasehold_core::{AttemptId, ClientId, Error, Name, StoreUrl};
use leasehold_sql::SqlBackend;
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) struct Side {
    pub(crate) backend: Arc<SqlBackend>,
    pub(crate) events: UnboundedReceiver<Event>,
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

    pub(crate) fn ask(&mut self, ttl: Duration) -> Ask {
        self.sequence += 1;
        Ask {
            name: name(),
            attempt: AttemptId::new(self.client, self.sequence, 0),
            mode: Mode::Exclusive,
            ttl,
            wait: false,
            fair: true,
            tokens: 1,
            origin: Arc::new(Origin::new("host", 7, None)),
        }
    }

    pub(crate) async fn granted(&self, ask: &Ask) -> Grant {
        match self.backend.acquire(ask.clone()).await.unwrap() {
            Answer::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn queued(&self, ask: &Ask) -> Option<u64> {
        match self.backend.acquire(ask.clone()).await.unwrap() {
            Answer::Queued { place, .. } => place,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn renew(&self, ask: &Ask, grant: Grant) -> Result<Renewed, Error> {
        let Ask { name, attempt, ttl, .. } = ask.clone();
        let lease = Renewal { name, attempt, base: grant.tokens.base(), ttl };
        self.backend.renew(&[lease]).await.remove(0)
    }

    pub(crate) async fn verdict(&self, end: &End) -> Verdict {
        self.backend.release(end.clone()).await.unwrap().verdict
    }

    pub(crate) async fn status(&self) -> Status {
        self.backend.status(&name()).await.unwrap()
    }

    /// Waits until a push grants the lock to this attempt.
    pub(crate) async fn pushed(&mut self, ask: &Ask) -> Grant {
        loop {
            match self.events.recv().await.unwrap() {
                Event::Granted { attempt, grant, .. } if attempt == ask.attempt => return grant,
                _ => {}
            }
        }
    }
}

/// Builds the end of an attempt without a known grant.
pub(crate) fn unheard(ask: &Ask) -> End {
    End {
        name: ask.name.clone(),
        attempt: ask.attempt,
        base: None,
        last: None,
        suspect: false,
        keep: None,
        then: None,
    }
}

pub(crate) fn end(ask: &Ask, grant: Grant) -> End {
    let base = Some(grant.tokens.base());
    End { base, last: base, ..unheard(ask) }
}
