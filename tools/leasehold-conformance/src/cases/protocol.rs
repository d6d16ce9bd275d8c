//! The engine alone: attempts, tokens, idempotence, late messages.

use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, ConvertRequest, Grant, LimitChange, Mode, ReleaseRequest, Renewal,
    Renewed, ValueSwap, Verdict,
};
use leasehold_core::clock::Clock;
use leasehold_core::proto::semaphore::Demand;
use leasehold_core::{
    Capability, Client, ClientSettings, Deadline, ErrorKind, Forced, LeaseKind, State,
};

use super::{always, case};
use crate::case::{Raw, prepared, since};
use crate::{Case, Context, Outcome, ensure, until};

pub(super) const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(150);
/// For leases that are to be renewed, also by a machine that is slow.
const LONGER: Duration = Duration::from_secs(6);

pub(super) const CASES: &[Case] = &[
    case!(one_holder_at_a_time, always, "At most one attempt holds a lock; others receive `Busy`"),
    case!(
        asking_again_gives_the_same_lease,
        always,
        "An acquire that is repeated gives the same lease and the same token"
    ),
    case!(tokens_grow_from_holder_to_holder, always, "Fencing tokens grow from holder to holder"),
    case!(
        a_late_release_never_touches_a_successor,
        always,
        "A release of an earlier attempt never ends a later lease, even of the same client"
    ),
    case!(
        a_late_renewal_never_revives,
        always,
        "A renewal of an ended lease is refused and brings nothing back"
    ),
    case!(
        a_release_is_idempotent,
        always,
        "A release that is repeated gives the same answer; not known any more once a later holder lost its lease"
    ),
    case!(
        an_acquire_after_its_own_release_is_refused,
        always,
        "An acquire that arrives after it was given up gets nothing"
    ),
    case!(
        status_tells_and_does_not_disturb,
        always,
        "Status shows the holder, its token and since when it holds, and never disturbs the lock"
    ),
    case!(
        a_lease_ends_by_its_ttl,
        |c| c.lease == LeaseKind::Ttl,
        "A lease without renewal expires after its ttl, and its holder receives `Lost`"
    ),
    case!(
        renewal_keeps_a_batch_of_leases,
        |c| c.lease == LeaseKind::Ttl,
        "Leases are renewed in batches, each with an answer of its own"
    ),
    case!(
        blocks_of_tokens_never_overlap,
        |c| c.token_blocks,
        "One grant can reserve many tokens, and later blocks start above those used"
    ),
    case!(
        a_kept_lock_stays_taken,
        |c| c.keep,
        "A released lock can be kept taken for a minimum time without its holder"
    ),
    case!(
        force_release_ends_what_it_names,
        |c| c.force_release,
        "An operator can end a lease, by naming its token, and only that one"
    ),
    case!(list_knows_the_locks, |c| c.list, "The locks can be listed by prefix"),
    case!(
        what_cannot_be_done_is_refused,
        always,
        "What the engine cannot do is refused with Unsupported and changes nothing"
    ),
];

pub(super) fn granted(answer: Answer) -> Result<Grant, String> {
    match answer {
        Answer::Granted(grant) => Ok(grant),
        other => Err(format!("not granted: {other:?}")),
    }
}

impl Raw {
    pub(super) async fn take(
        &mut self,
        request: &AcquireRequest,
    ) -> Result<Grant, Box<dyn std::error::Error + Send + Sync>> {
        Ok(granted(self.backend.acquire(request.clone()).await?)?)
    }

    /// Takes a lock for a time that is short, or another for longer where the grant comes only when it
    /// is over.
    async fn take_short(
        &mut self,
        context: &Context,
        what: &str,
    ) -> Result<(AcquireRequest, Grant), Box<dyn std::error::Error + Send + Sync>> {
        let backend = self.backend.clone();
        prepared(SHORT, |ttl| {
            let name = context.name(&format!("{what} for {ttl:?}"));
            let (backend, request) = (backend.clone(), self.request(&name, ttl));
            async move {
                let answer = backend.acquire(request.clone()).await?;
                Ok((request, granted(answer)?))
            }
        })
        .await
    }

    pub(super) async fn give(
        &self,
        request: &AcquireRequest,
        grant: &Grant,
    ) -> Result<Verdict, leasehold_core::Error> {
        Ok(self.backend.release(self.end_of(request, grant)).await?.verdict)
    }

    pub(super) fn end_of(&self, request: &AcquireRequest, grant: &Grant) -> ReleaseRequest {
        let base = Some(grant.tokens.base());
        self.end(request).with_base(base).with_last(base)
    }

    async fn renew(
        &self,
        request: &AcquireRequest,
        grant: &Grant,
    ) -> Result<Renewed, leasehold_core::Error> {
        let answers = self.backend.renew(&[renewal(request, grant)]).await;
        answers.into_iter().next().unwrap_or(Ok(Renewed::Lost))
    }
}

fn renewal(request: &AcquireRequest, grant: &Grant) -> Renewal {
    let AcquireRequest { name, attempt, ttl, .. } = request.clone();
    Renewal::new(name, attempt, grant.tokens.base(), ttl)
}

async fn one_holder_at_a_time(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("lock");
    let first = one.request(&name, TTL);
    let grant = one.take(&first).await?;
    for other in [two.request(&name, TTL), one.request(&name, TTL)] {
        let answer = two.backend.acquire(other).await?;
        ensure!(matches!(answer, Answer::Busy { .. }), "held, but {answer:?}");
    }
    ensure!(one.give(&first, &grant).await? == Verdict::Released, "not released");
    let second = two.request(&name, TTL);
    let grant = two.take(&second).await?;
    ensure!(two.give(&second, &grant).await? == Verdict::Released, "not released");
    Ok(())
}

async fn asking_again_gives_the_same_lease(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    let request = raw.request(&context.name("lock"), TTL);
    let first = raw.take(&request).await?;
    let again = raw.take(&request).await?;
    ensure!(first.tokens == again.tokens, "{first:?} became {again:?}");
    ensure!(raw.give(&request, &first).await? == Verdict::Released, "not released");
    Ok(())
}

async fn tokens_grow_from_holder_to_holder(context: Context) -> Outcome {
    let mut raws = [context.raw().await, context.raw().await];
    let name = context.name("lock");
    let mut last = None;
    for turn in 0..20 {
        let raw = &mut raws[turn % 2];
        let request = raw.request(&name, TTL);
        let grant = raw.take(&request).await?;
        ensure!(Some(grant.tokens.base()) > last, "{last:?} then {grant:?}");
        last = Some(grant.tokens.top());
        raw.give(&request, &grant).await?;
    }
    Ok(())
}

async fn a_late_release_never_touches_a_successor(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    let name = context.name("lock");
    let early = raw.request(&name, TTL);
    let early_grant = raw.take(&early).await?;
    raw.give(&early, &early_grant).await?;
    let late = raw.request(&name, TTL);
    let grant = raw.take(&late).await?;
    for suspect in [false, true] {
        for base in [None, Some(early_grant.tokens.base())] {
            let release = raw.end(&early).with_base(base).with_suspect(suspect);
            let verdict = raw.backend.release(release).await?.verdict;
            ensure!(verdict != Verdict::Lost, "{verdict:?} for what was released");
        }
    }
    ensure!(raw.renew(&late, &grant).await? == Renewed::Renewed, "the successor was touched");
    ensure!(raw.give(&late, &grant).await? == Verdict::Released, "the successor was touched");
    Ok(())
}

async fn a_late_renewal_never_revives(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("lock");
    let early = one.request(&name, TTL);
    let early_grant = one.take(&early).await?;
    one.give(&early, &early_grant).await?;
    ensure!(
        one.renew(&early, &early_grant).await? == Renewed::Lost,
        "a released lease was renewed"
    );
    ensure!(one.status(&name).await?.state == State::Free, "a renewal took the lock");
    let late = two.request(&name, TTL);
    let grant = two.take(&late).await?;
    ensure!(
        one.renew(&early, &early_grant).await? == Renewed::Lost,
        "another attempt's lease was renewed"
    );
    two.give(&late, &grant).await?;
    Ok(())
}

async fn a_release_is_idempotent(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    let request = raw.request(&context.name("lock"), TTL);
    let grant = raw.take(&request).await?;
    for round in 0..3 {
        let verdict = raw.give(&request, &grant).await?;
        ensure!(verdict == Verdict::Released, "round {round}: {verdict:?}");
    }
    let never = raw.request(&context.name("lock"), TTL);
    let verdict = raw.backend.release(raw.end(&never)).await?.verdict;
    ensure!(verdict == Verdict::Gone, "an unknown attempt: {verdict:?}");
    Ok(())
}

async fn an_acquire_after_its_own_release_is_refused(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    let name = context.name("lock");
    let request = raw.request(&name, TTL).with_wait(true);
    raw.backend.release(raw.end(&request).with_suspect(true)).await?;
    let answer = raw.backend.acquire(request.clone()).await?;
    ensure!(answer == Answer::Ended, "{answer:?}");
    ensure!(raw.status(&name).await?.state == State::Free, "it took the lock");
    // Nor does it come back after another client has created the lock's first record.
    let other = raw.request(&name, TTL);
    let grant = raw.take(&other).await?;
    let answer = raw.backend.acquire(request).await?;
    raw.give(&other, &grant).await?;
    ensure!(answer == Answer::Ended, "after another's: {answer:?}");
    Ok(())
}

async fn status_tells_and_does_not_disturb(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("lock");
    let free = two.status(&name).await?;
    ensure!(free.state == State::Free && free.token.is_none(), "{free:?}");
    for _ in 0..10 {
        let request = one.request(&name, TTL);
        let watcher = tokio::spawn({
            let (backend, name) = (two.backend.clone(), name.clone());
            async move {
                for _ in 0..20 {
                    backend.status(&name).await?;
                }
                Ok::<_, leasehold_core::Error>(())
            }
        });
        let grant = one.take(&request).await?;
        let status = two.status(&name).await?;
        ensure!(status.state == State::Held, "{status:?}");
        ensure!(status.token == Some(grant.tokens.base()), "{status:?}, {grant:?}");
        ensure!(status.holder.as_ref().map(|h| h.attempt) == Some(request.attempt), "{status:?}");
        ensure!(status.since_unix_ms.is_some(), "{status:?}");
        one.give(&request, &grant).await?;
        watcher.await??;
    }
    let request = two.request(&name, TTL);
    let grant = two.take(&request).await?;
    two.give(&request, &grant).await?;
    Ok(())
}

async fn a_lease_ends_by_its_ttl(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let (early, early_grant) = one.take_short(&context, "lock").await?;
    let late = two.request(&early.name, TTL);
    let backend = two.backend.clone();
    until("the lease ends", || async {
        matches!(backend.acquire(late.clone()).await, Ok(Answer::Granted(_)))
    })
    .await?;
    let grant = two.take(&late).await?;
    ensure!(grant.tokens.base() > early_grant.tokens.top(), "{early_grant:?} then {grant:?}");
    ensure!(one.renew(&early, &early_grant).await? == Renewed::Lost, "an ended lease was renewed");
    for round in 0..2 {
        let verdict = one.give(&early, &early_grant).await?;
        ensure!(verdict == Verdict::Lost, "round {round}: an ended lease was {verdict:?}");
    }
    ensure!(two.give(&late, &grant).await? == Verdict::Released, "the successor was touched");
    let (alone, grant) = one.take_short(&context, "alone").await?;
    let backend = one.backend.clone();
    until("a lease that no waiter takes over ends too", || async {
        backend.status(&alone.name).await.is_ok_and(|status| status.state == State::Free)
    })
    .await?;
    ensure!(one.renew(&alone, &grant).await? == Renewed::Lost, "an ended lease was renewed");
    for round in 0..2 {
        let verdict = one.give(&alone, &grant).await?;
        ensure!(verdict == Verdict::Lost, "round {round}: an ended lease was {verdict:?}");
    }
    Ok(())
}

async fn renewal_keeps_a_batch_of_leases(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    for attempt in 0..5 {
        if a_batch_is_kept(&context, &mut raw, attempt).await? {
            return Ok(());
        }
    }
    Err("no renewal was answered before the leases ended, in five attempts".into())
}

/// Whether a batch of leases was renewed again and again, each time before it ended; fails if a lease was
/// lost that was renewed in time.
async fn a_batch_is_kept(
    context: &Context,
    raw: &mut Raw,
    attempt: u32,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let clock = Clock::system();
    let mut leases: Vec<(AcquireRequest, Grant)> = Vec::new();
    let mut renewed = clock.now();
    for number in 0..40 {
        let request = raw.request(&context.name(&format!("lock {attempt} {number}")), LONGER);
        leases.push((request.clone(), raw.take(&request).await?));
        // A slow server takes longer for all of them than the first lease lasts.
        if since(renewed) >= LONGER / 5 {
            let batch: Vec<_> =
                leases.iter().map(|(request, grant)| renewal(request, grant)).collect();
            let sent = clock.now();
            raw.backend.renew(&batch).await;
            if since(renewed) >= LONGER {
                return Ok(false);
            }
            renewed = sent;
        }
    }
    raw.give(&leases[7].0, &leases[7].1).await?;
    let batch: Vec<_> = leases.iter().map(|(request, grant)| renewal(request, grant)).collect();
    for _ in 0..6 {
        clock.sleep(LONGER / 5).await;
        let sent = clock.now();
        let answers = raw.backend.renew(&batch).await;
        // Later than this the server may have ended what it has not yet renewed.
        if since(renewed) >= LONGER {
            return Ok(false);
        }
        renewed = sent;
        ensure!(answers.len() == batch.len(), "{} answers", answers.len());
        for (number, answer) in answers.into_iter().enumerate() {
            let wanted = if number == 7 { Renewed::Lost } else { Renewed::Renewed };
            ensure!(answer? == wanted, "lease {number} is not {wanted:?}");
        }
    }
    Ok(true)
}

async fn blocks_of_tokens_never_overlap(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    let name = context.name("lock");
    let first = raw.request(&name, TTL).with_tokens(1000);
    let grant = raw.take(&first).await?;
    let (base, top) = (grant.tokens.base().get(), grant.tokens.top().get());
    ensure!(top - base == 999, "{grant:?}");
    let used = leasehold_core::Token::new(base + 500);
    raw.backend.release(raw.end_of(&first, &grant).with_last(used)).await?;
    let second = raw.request(&name, TTL).with_tokens(10);
    let grant = raw.take(&second).await?;
    ensure!(grant.tokens.base().get() > base + 500, "{base}.. used to {used:?}, then {grant:?}");
    Ok(())
}

async fn a_kept_lock_stays_taken(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("lock");
    let request = one.request(&name, TTL);
    let grant = one.take(&request).await?;
    let keep = Duration::from_secs(1);
    let release = one.end_of(&request, &grant).with_keep(keep);
    let released = Clock::system().now();
    // Servers may count whole milliseconds.
    let is_over = || since(released) >= keep - Duration::from_millis(5);
    for _ in 0..2 {
        let verdict = one.backend.release(release.clone()).await?.verdict;
        ensure!(verdict == Verdict::Released, "{verdict:?}");
    }
    let state = one.status(&name).await?.state;
    ensure!(state == State::Kept || is_over(), "{state:?}, not kept");
    let late = one.backend.acquire(request.clone()).await?;
    ensure!(late == Answer::Ended, "the attempt that ended was answered {late:?}");
    ensure!(one.renew(&request, &grant).await? == Renewed::Lost, "a released lease was renewed");
    let next = two.request(&name, TTL);
    let mut answer = two.backend.acquire(next.clone()).await?;
    ensure!(matches!(answer, Answer::Busy { .. }) || is_over(), "kept, but {answer:?}");
    let limit = Deadline::after(Clock::system().now(), TTL);
    while !matches!(answer, Answer::Granted(_)) {
        ensure!(!limit.has_passed(Clock::system().now()), "it is kept for ever: {answer:?}");
        Clock::system().sleep(Duration::from_millis(2)).await;
        answer = two.backend.acquire(next.clone()).await?;
    }
    ensure!(is_over(), "the next got in after {:?}", since(released));
    Ok(())
}

async fn force_release_ends_what_it_names(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    let name = context.name("lock");
    let some = leasehold_core::Token::new(7).ok_or("token")?;
    ensure!(raw.backend.force_release(&name, some).await? == Forced::NotHeld, "no attempt held it");
    let request = raw.request(&name, TTL);
    let grant = raw.take(&request).await?;
    let token = grant.tokens.base();
    ensure!(raw.backend.force_release(&name, some).await? == Forced::Other(token), "wrong token");
    ensure!(raw.renew(&request, &grant).await? == Renewed::Renewed, "the wrong token ended it");
    ensure!(raw.backend.force_release(&name, token).await? == Forced::Ended, "right token");
    ensure!(raw.renew(&request, &grant).await? == Renewed::Lost, "still renewed");
    ensure!(raw.give(&request, &grant).await? == Verdict::Lost, "its holder was not told");
    Ok(())
}

async fn list_knows_the_locks(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    for what in ["b", "a", "c/1", "c/2"] {
        let request = raw.request(&context.name(what), TTL);
        raw.take(&request).await?;
    }
    let prefix = context.name("");
    let listed = raw.backend.list(prefix.as_str(), 100).await?;
    let names: Vec<_> = listed.iter().map(|status| status.name.as_str()).collect();
    let wanted = ["a", "b", "c/1", "c/2"].map(|what| context.name(what).to_string());
    ensure!(names == wanted, "{names:?}");
    ensure!(listed.iter().all(|status| status.state == State::Held), "{listed:?}");
    let prefix = context.name("c/");
    ensure!(raw.backend.list(prefix.as_str(), 100).await?.len() == 2, "prefix");
    ensure!(raw.backend.list(prefix.as_str(), 1).await?.len() == 1, "limit");
    ensure!(raw.backend.list("no such prefix", 9).await?.is_empty(), "no such prefix");
    Ok(())
}

async fn what_cannot_be_done_is_refused(context: Context) -> Outcome {
    let mut raw = context.raw().await;
    let Capability { keep, rotate, shared, semaphores, latches, .. } =
        raw.backend.capability().clone();
    let Capability { force_release, force_release_attempt, .. } = raw.backend.capability().clone();
    let name = context.name("lock");
    let request = raw.request(&name, TTL);
    let grant = raw.take(&request).await?;
    let mut refusals = Vec::new();
    if !shared {
        let reader = raw.request(&context.name("shared"), TTL).with_mode(Mode::Shared);
        let convert = ConvertRequest::new(raw.end_of(&request, &grant), reader.clone());
        refusals.push(("convert", raw.backend.convert(convert).await.err()));
        refusals.push(("shared mode", raw.backend.acquire(reader).await.err()));
    }
    if !semaphores {
        let demand = Demand::new(1, 2)?;
        let request = raw.request(&context.name("semaphore"), TTL).with_demand(demand);
        refusals.push(("permit", raw.backend.acquire(request).await.err()));
        refusals.push(("limit", raw.backend.limit(&context.name("semaphore")).await.err()));
        let change = LimitChange::new(context.name("semaphore"), 0, demand.limit());
        refusals.push(("set_limit", raw.backend.set_limit(change).await.err()));
    }
    if !latches {
        let name = context.name("latch");
        refusals.push(("value", raw.backend.value(&name).await.err()));
        let swap = ValueSwap::new(name, None, b"latch".to_vec(), TTL);
        refusals.push(("swap_value", raw.backend.swap_value(swap).await.err()));
    }
    if !keep {
        let release = raw.end_of(&request, &grant).with_keep(TTL);
        refusals.push(("keep", raw.backend.release(release).await.err()));
    }
    if !rotate {
        let release = raw.end_of(&request, &grant).with_then(raw.request(&name, TTL));
        refusals.push(("rotate", raw.backend.release(release).await.err()));
    }
    if !force_release {
        let forced = raw.backend.force_release(&name, grant.tokens.base()).await;
        refusals.push(("force_release", forced.err()));
    }
    if !force_release_attempt {
        let forced = raw.backend.force_release_attempt(&name, request.attempt, Mode::Shared).await;
        refusals.push(("force_release_attempt", forced.err()));
    }
    if !latches {
        let latch = context.name("latch");
        refusals.push(("value", raw.backend.value(&latch).await.err()));
        let swap = ValueSwap::new(latch, None, b"leasehold latch 1".to_vec(), TTL);
        refusals.push(("swap_value", raw.backend.swap_value(swap).await.err()));
    }
    if !raw.backend.capability().cached_leases {
        let client = context.client().await;
        let caching = client.lock(context.name("cached")).cache(TTL).acquire().await;
        refusals.push(("cache", caching.err()));
        let settings = ClientSettings::new().cache(TTL);
        let settled = Client::with_settings(context.subject.connect().await, settings);
        refusals.push(("a cache time of the client", settled.err()));
    }
    for (what, refusal) in refusals {
        let kind = refusal.map(|error| error.kind());
        ensure!(kind == Some(ErrorKind::Unsupported), "{what}: {kind:?}");
    }
    ensure!(raw.renew(&request, &grant).await? == Renewed::Renewed, "a refusal changed something");
    ensure!(raw.give(&request, &grant).await? == Verdict::Released, "a refusal changed something");
    Ok(())
}
