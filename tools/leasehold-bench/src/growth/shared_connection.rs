//! One connection to a store for many clients: with one for each, the server's limit of connections would come first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use leasehold::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, Ended, Event, EventSink, Events,
    ReleaseRequest, Renewal, Renewed,
};
use leasehold::{
    AttemptId, Capability, Client, ClientId, ClientSettings, Forced, Name, Result, Status, Token,
};

/// The connection.
#[derive(Clone, Debug)]
pub(super) struct SharedConnection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    ids: Arc<Ids>,
    /// Acquire requests that were answered without a grant.
    waits: AtomicUsize,
}

/// The clients, and how their attempts are called on the connection.
#[derive(Debug)]
struct Ids {
    /// The client to which the engine sends all events.
    first: OnceLock<ClientId>,
    clients: Mutex<Vec<(ClientId, EventSink)>>,
    /// Bits of a sequence number that say which client it is.
    bits: u32,
}

/// The part of one client.
#[derive(Debug)]
struct Part {
    shared: Arc<Shared>,
    number: OnceLock<u32>,
}

impl SharedConnection {
    /// Connects, for at most so many clients.
    pub(super) async fn open(url: &str, clients: usize) -> Result<Self> {
        let bits = usize::BITS - clients.leading_zeros();
        let ids = Ids { first: OnceLock::new(), clients: Mutex::default(), bits };
        let (backend, ids) = (leasehold::open(url).await?, Arc::new(ids));
        Ok(Self(Arc::new(Shared { backend, ids, waits: AtomicUsize::new(0) })))
    }

    /// Creates another client of it.
    pub(super) fn client(&self) -> Result<Client> {
        let part = Part { shared: self.0.clone(), number: OnceLock::new() };
        Client::with_settings(Arc::new(part), ClientSettings::new())
    }

    /// Returns how many acquire requests were answered without a grant until now.
    pub(super) fn waits(&self) -> usize {
        self.0.waits.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn counted(&self, answer: Result<Answer>) -> Result<Answer> {
        if matches!(answer, Ok(Answer::Queued { .. } | Answer::Busy { .. })) {
            self.waits.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

impl Ids {
    fn add(&self, client: ClientId, events: EventSink) -> u32 {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.push((client, events));
        clients.len() as u32 - 1
    }

    /// The attempt of client `number` as the engine knows it: one of the first client, with the number in it.
    fn outside(&self, attempt: AttemptId, number: u32) -> AttemptId {
        let client = *self.first.get_or_init(|| attempt.client());
        let sequence = sequence(attempt) << self.bits | number;
        AttemptId::new(client, sequence, attempt.random())
    }

    /// Passes an event on to the client whose attempt it names, or to all.
    fn deliver(&self, mut event: Event) {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(attempt) = attempt_of(&mut event) else {
            for (_, events) in clients.iter() {
                events.send(event.clone());
            }
            return;
        };
        let sequence = sequence(*attempt);
        let number = sequence & ((1 << self.bits) - 1);
        if let Some((client, events)) = clients.get(number as usize) {
            *attempt = AttemptId::new(*client, sequence >> self.bits, attempt.random());
            events.send(event);
        }
    }
}

fn sequence(attempt: AttemptId) -> u32 {
    let [.., a, b, c, d, _, _, _, _] = attempt.to_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn attempt_of(event: &mut Event) -> Option<&mut AttemptId> {
    match event {
        Event::Granted { attempt, .. }
        | Event::Permit { attempt, .. }
        | Event::Refused { attempt, .. }
        | Event::Next { attempt, .. }
        | Event::Wanted { attempt, .. }
        | Event::Lost { attempt, .. } => Some(attempt),
        _ => None,
    }
}

async fn deliver_all(ids: Arc<Ids>, mut events: Events) {
    while let Some(event) = events.recv().await {
        ids.deliver(event);
    }
}

impl Part {
    fn outside(&self, attempt: AttemptId) -> AttemptId {
        self.shared.ids.outside(attempt, self.number.get().copied().unwrap_or_default())
    }

    fn asked(&self, mut request: AcquireRequest) -> AcquireRequest {
        request.attempt = self.outside(request.attempt);
        request
    }

    fn ended(&self, mut release: ReleaseRequest) -> ReleaseRequest {
        release.attempt = self.outside(release.attempt);
        release.then = release.then.map(|next| Box::new(self.asked(*next)));
        release
    }
}

impl Backend for Part {
    fn capability(&self) -> &Capability {
        self.shared.backend.capability()
    }

    fn place(&self) -> String {
        self.shared.backend.place()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        let (backend, ids) = (&self.shared.backend, &self.shared.ids);
        self.number.get_or_init(|| ids.add(client, events));
        ids.first.get_or_init(|| {
            let (sink, events) = EventSink::channel();
            backend.attach(client, sink);
            tokio::spawn(deliver_all(ids.clone(), events));
            client
        });
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        let request = self.asked(request);
        Box::pin(async move { self.shared.counted(self.shared.backend.acquire(request).await) })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        let outside = |lease: &Renewal| {
            let mut lease = lease.clone();
            lease.attempt = self.outside(lease.attempt);
            lease
        };
        let leases: Vec<Renewal> = leases.iter().map(outside).collect();
        Box::pin(async move { self.shared.backend.renew(&leases).await })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        self.shared.backend.release(self.ended(release))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        self.shared.backend.status(name)
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.shared.backend.watch(name)
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        self.shared.backend.list(prefix, limit)
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        self.shared.backend.force_release(name, token)
    }

    fn abandon(&self, end: &ReleaseRequest) {
        self.shared.backend.abandon(&self.ended(end.clone()));
    }
}
