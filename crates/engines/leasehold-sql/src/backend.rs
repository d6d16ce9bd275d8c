//! The `Backend` trait over the tables.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended,
    EventSink, Grant, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal, Renewed,
    StoredLimit, Term, ValueSwap,
};
use leasehold_core::{
    AttemptId, Capability, ClientId, Forced, LeaseKind, Name, Result, Status, Token,
};
use tokio::task::AbortHandle;

use crate::acquire::{self, Asked};
use crate::dialect::LOCK;
use crate::maintenance::Later;
use crate::notifications::Notifications;
use crate::store::Store;
use crate::watch::{Quiet, Watch};

/// The bounds of the time limit of one call, which is a third of the ttl within them.
pub(crate) const LIMITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// What to do if tables are missing.
const OLDER_TABLES: &str =
    "the tables are of an earlier version; create the missing ones: leasehold init --store URL";

/// The connections of one client to a database.
#[derive(Debug)]
pub struct SqlBackend {
    store: Arc<Store>,
    watch: Arc<Watch>,
    tasks: Vec<AbortHandle>,
    place: String,
    capability: Capability,
}

impl SqlBackend {
    pub(crate) fn new(
        watch: Arc<Watch>,
        tasks: Vec<AbortHandle>,
        place: String,
        found: Later,
        observe: bool,
    ) -> Self {
        let store = watch.store.clone();
        let mut capability = Capability::new(store.tables.dialect.engine(), LeaseKind::Ttl);
        capability.ordered = true;
        capability.unfair = true;
        capability.push = true;
        capability.token_blocks = true;
        capability.rotate = true;
        capability.keep = true;
        capability.shared = found.readers;
        capability.semaphores = found.records;
        capability.latches = found.records;
        capability.to_get_the_rest = (found != Later::ALL).then_some(OLDER_TABLES);
        capability.observe = observe;
        capability.list = true;
        capability.force_release = true;
        capability.force_release_attempt = true;
        capability.answers_within = Some(LIMITS.1);
        Self { store, watch, tasks, place, capability }
    }

    #[cfg(all(test, feature = "sqlite"))]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    async fn ask(&self, request: &AcquireRequest) -> Result<Answer> {
        acquire::fits(&self.capability, request)?;
        let waits = self.watch.waits(request.attempt);
        // The client acquires again, and its caller may wait for less than the longest limit. Then
        // the reason must be known.
        let most = if self.store.tables.dialect.is_file() { LOCK } else { LIMITS.1 };
        let until = self.store.within(limit(request.ttl).min(most));
        let unknown = self.watch.unknown();
        let asked = match request.mode {
            Mode::Permit => {
                let (answer, told) = self.store.ask_permit(request, until, false).await?;
                Asked { answer, told, reference: None, only_queued: false }
            }
            _ => {
                let contended = self.watch.is_contended(&request.name);
                self.store.ask(request, waits, contended, until).await?
            }
        };
        self.tell(&asked.told);
        match asked {
            Asked { answer: Answer::Queued { ask_again: lasts, .. }, reference, .. } => {
                let quiet = asked.only_queued.then_some(Quiet { lasts, unknown });
                self.watch.enter(request, reference, quiet);
            }
            _ => self.note(request, &asked.answer),
        }
        Ok(asked.answer)
    }

    /// Records what an answer means for the polling.
    fn note(&self, request: &AcquireRequest, answer: &Answer) {
        match answer {
            Answer::Queued { .. } => self.watch.enter(request, None, None),
            Answer::Granted(grant) => self.note_grant(request, grant),
            Answer::Permit { .. } => self.watch.leave(request.attempt),
            _ => self.watch.forget(request.attempt),
        }
    }

    fn note_grant(&self, request: &AcquireRequest, grant: &Grant) {
        self.watch.leave(request.attempt);
        if grant.wanted {
            self.watch.note_waited_for(request.attempt);
        }
        if request.mode == Mode::Shared {
            self.watch.read(request.attempt, request.ttl);
        } else if request.tokens > 1 && grant.term == Term::Ttl {
            self.watch.hold(request.ttl);
        }
    }

    /// Handles what concerns this client without a message of the server.
    fn tell(&self, told: &Notifications) {
        let Some(client) = self.watch.client().filter(|client| told.concerns(*client)) else {
            return;
        };
        told.lost_by(client).for_each(|lost| self.watch.lose(lost));
        self.watch.look();
    }

    async fn end(&self, release: &ReleaseRequest) -> Result<Ended> {
        acquire::time_fits("keep", release.keep.unwrap_or_default())?;
        if let Some(request) = &release.then {
            acquire::fits(&self.capability, request)?;
        }
        let mut known = self.watch.end(release.attempt);
        known.waited_for |= self.store.tables.dialect.hands_on_in_a_packet()
            && self.watch.is_contended(&release.name);
        let until = self.store.within(LIMITS.1);
        let (ended, told) = match release.mode {
            Mode::Permit if !self.capability.semaphores => {
                return Err(self.capability.no_semaphores());
            }
            Mode::Permit => self.store.end_permit(release, until).await?,
            _ => self.store.end(release, known, until).await?,
        };
        if let (Some(request), Some(answer)) = (&release.then, &ended.then) {
            self.note(request, answer);
        }
        if told.is_empty() {
            self.watch.note_calm(&release.name);
        }
        self.tell(&told);
        Ok(ended)
    }

    async fn turn(&self, request: &ConvertRequest) -> Result<Converted> {
        let ConvertRequest { end, next, .. } = request;
        acquire::fits(&self.capability, next)?;
        if !self.capability.shared {
            return Err(self.capability.no_read_write_locks());
        }
        let until = self.store.within(limit(next.ttl));
        let (converted, told) = self.store.convert(request, until).await?;
        match &converted {
            Converted::Granted(grant) => {
                self.watch.end(end.attempt);
                self.note_grant(next, grant);
            }
            Converted::Refused { wanted: true } => self.watch.note_waited_for(end.attempt),
            _ => {}
        }
        self.tell(&told);
        Ok(converted)
    }
}

/// Returns the time limit of a call about a lease.
pub(crate) fn limit(ttl: Duration) -> Duration {
    (ttl / 3).clamp(LIMITS.0, LIMITS.1)
}

impl Backend for SqlBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        self.watch.attach(client, events);
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move { self.ask(&request).await })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            let shortest = leases.iter().map(|lease| lease.ttl).min().unwrap_or_default();
            let longest = leases.iter().map(|lease| lease.ttl).max().unwrap_or_default();
            let reads = self.watch.reads();
            let answers = self.store.renew(leases, &reads, limit(shortest)).await;
            for (lease, answer) in leases.iter().zip(&answers) {
                if matches!(answer, Ok(Renewed::Wanted)) {
                    self.watch.note_waited_for(lease.attempt);
                }
            }
            self.watch.hold(longest);
            answers
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move { self.end(&release).await })
    }

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        Box::pin(async move { self.turn(&request).await })
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        Box::pin(async move {
            if !self.capability.semaphores {
                return Err(self.capability.no_semaphores());
            }
            self.store.limit(name, self.store.within(LIMITS.1)).await
        })
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        Box::pin(async move {
            if !self.capability.semaphores {
                return Err(self.capability.no_semaphores());
            }
            let (changed, told) =
                self.store.set_limit(&change, self.store.within(LIMITS.1)).await?;
            self.tell(&told);
            Ok(changed)
        })
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            if !self.capability.latches {
                return Err(self.capability.no_latches());
            }
            self.store.value(name, self.store.within(LIMITS.1)).await
        })
    }

    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            if !self.capability.latches {
                return Err(self.capability.no_latches());
            }
            self.store.swap_value(&swap, self.store.within(LIMITS.1)).await
        })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(self.store.status(name, self.store.within(LIMITS.1)))
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.capability.observe.then(|| self.watch.observe(name))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(self.store.list(prefix, limit, self.store.within(LIMITS.1)))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let until = self.store.within(LIMITS.1);
            let (forced, told) = self.store.force(name, token, until).await?;
            self.tell(&told);
            Ok(forced)
        })
    }

    fn force_release_attempt<'a>(
        &'a self,
        name: &'a Name,
        attempt: AttemptId,
        mode: Mode,
    ) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let until = self.store.within(LIMITS.1);
            let (forced, told) = match mode {
                Mode::Permit => self.store.force_permit_of(name, attempt, until).await?,
                _ => self.store.force_reader(name, attempt, until).await?,
            };
            self.tell(&told);
            Ok(forced)
        })
    }
}

impl Drop for SqlBackend {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
