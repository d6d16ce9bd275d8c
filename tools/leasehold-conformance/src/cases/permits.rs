//! Semaphores, at the engine: retries, late requests, and versions of the limit.

use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Event, Grant, LimitChange, LimitChanged, ReleaseRequest, Renewal,
    Renewed, Verdict,
};
use leasehold_core::proto::semaphore::{Demand, Limit};
use leasehold_core::{Capability, Error, ErrorKind, LeaseKind, Name, State};

use super::case;
use crate::case::Raw;
use crate::{Case, Context, Outcome, ensure, until};

const TTL: Duration = Duration::from_secs(30);

pub(super) const CASES: &[Case] = &[
    case!(
        a_repeated_request_has_the_same_slots,
        semaphores,
        "A request for a permit that is repeated gives the same slots and token; after its release it gives nothing"
    ),
    case!(
        a_late_release_of_a_permit_touches_no_other,
        semaphores,
        "A release of a permit that is repeated or late ends no other permit, also not one of the same slot"
    ),
    case!(
        a_repeated_change_of_the_limit_undoes_nothing,
        semaphores,
        "A change of the limit counts once: a late repeat neither undoes nor repeats a later change"
    ),
    case!(
        a_name_is_a_lock_or_a_semaphore,
        semaphores,
        "A lock under the name of a semaphore is refused, and the other way round; the holder keeps what it has"
    ),
    case!(
        a_refused_demand_changes_nothing,
        semaphores,
        "A permit for another limit than the stored one is refused, with the stored one, and changes nothing"
    ),
    case!(
        a_waiter_for_too_many_slots_is_refused,
        |c| semaphores(c) && c.ordered,
        "A waiter that needs more slots than a new limit allows gets an error, and those behind it go on"
    ),
    case!(
        a_permit_is_renewed_alone,
        |c| semaphores(c) && c.lease == LeaseKind::Ttl,
        "Renewing a permit prolongs no other, and a permit of another token is not renewed"
    ),
    case!(
        status_shows_the_permits,
        semaphores,
        "Status shows the limit, each permit with its slots and token, and how many slots the waiters need"
    ),
];

fn semaphores(capability: &Capability) -> bool {
    capability.semaphores
}

/// A permit that was granted.
struct Held {
    request: AcquireRequest,
    grant: Grant,
    slots: Vec<u32>,
}

impl Held {
    fn end(&self) -> ReleaseRequest {
        let base = self.grant.tokens.base();
        ReleaseRequest::new(self.request.name.clone(), self.request.attempt)
            .with_base(base)
            .with_last(base)
            .with_slot(self.slots.first().copied())
    }

    fn renewal(&self) -> Renewal {
        let (name, attempt) = (self.request.name.clone(), self.request.attempt);
        Renewal::new(name, attempt, self.grant.tokens.base(), TTL).of_permit()
    }
}

impl Raw {
    fn wants(&mut self, name: &Name, slots: u32, limit: u32) -> Outcome<AcquireRequest> {
        Ok(self.request(name, TTL).with_demand(Demand::new(slots, limit)?))
    }

    async fn permit(&self, request: &AcquireRequest) -> Outcome<Held> {
        match self.backend.acquire(request.clone()).await? {
            Answer::Permit { grant, slots } => Ok(Held { request: request.clone(), grant, slots }),
            other => Err(format!("not granted: {other:?}").into()),
        }
    }

    async fn no_permit(&self, request: &AcquireRequest) -> Outcome {
        let answer = self.backend.acquire(request.clone()).await?;
        ensure!(matches!(answer, Answer::Busy { .. }), "granted: {answer:?}");
        Ok(())
    }

    async fn gives_back(&self, held: &Held) -> Outcome<Verdict> {
        Ok(self.backend.release(held.end()).await?.verdict)
    }

    async fn limits(&self, name: &Name, version: u64, limit: u32) -> Outcome<LimitChanged> {
        let change = LimitChange::new(name.clone(), version, Limit::new(limit)?);
        Ok(self.backend.set_limit(change).await?)
    }

    async fn refused(&self, request: AcquireRequest) -> Outcome<Error> {
        let refused = self.backend.acquire(request).await;
        let error = refused.err().ok_or("not refused")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error}");
        Ok(error)
    }
}

async fn a_repeated_request_has_the_same_slots(context: Context) -> Outcome {
    let (mut one, name) = (context.raw().await, context.name("semaphore"));
    let request = one.wants(&name, 2, 3)?;
    let held = one.permit(&request).await?;
    ensure!(held.slots == [0, 1], "{:?}", held.slots);
    let again = one.permit(&request).await?;
    ensure!(again.slots == held.slots && again.grant.tokens == held.grant.tokens, "another permit");
    let beside = one.wants(&name, 1, 3)?;
    let beside = one.permit(&beside).await?;
    ensure!(beside.slots == [2], "{:?}", beside.slots);
    let release = held.end().with_suspect(true);
    ensure!(one.backend.release(release).await?.verdict == Verdict::Released, "not released");
    let late = one.backend.acquire(request).await?;
    ensure!(late == Answer::Ended, "a late request was executed: {late:?}");
    let next = one.wants(&name, 2, 3)?;
    let next = one.permit(&next).await?;
    ensure!(next.slots == [0, 1], "{:?}", next.slots);
    ensure!(next.grant.tokens.base() > held.grant.tokens.top(), "the token did not grow");
    one.gives_back(&next).await?;
    one.gives_back(&beside).await?;
    Ok(())
}

async fn a_late_release_of_a_permit_touches_no_other(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("semaphore");
    let (first, second) = (one.wants(&name, 1, 2)?, two.wants(&name, 1, 2)?);
    let (first, second) = (one.permit(&first).await?, two.permit(&second).await?);
    ensure!(one.gives_back(&first).await? == Verdict::Released, "not released");
    let next = two.wants(&name, 1, 2)?;
    let next = two.permit(&next).await?;
    ensure!(next.slots == first.slots, "{:?} after {:?}", next.slots, first.slots);
    ensure!(one.gives_back(&first).await? != Verdict::Lost, "a repeated release said lost");
    let third = one.wants(&name, 1, 2)?;
    one.no_permit(&third).await?;
    for held in [&next, &second] {
        ensure!(two.gives_back(held).await? == Verdict::Released, "another permit was ended");
    }
    Ok(())
}

async fn a_repeated_change_of_the_limit_undoes_nothing(context: Context) -> Outcome {
    let (mut one, name) = (context.raw().await, context.name("semaphore"));
    ensure!(one.backend.limit(&name).await?.is_none(), "a limit before the first use");
    let held = one.wants(&name, 1, 2)?;
    let held = one.permit(&held).await?;
    let stored = one.backend.limit(&name).await?.ok_or("no limit after the first use")?;
    ensure!((stored.limit.get(), stored.version) == (2, 1), "{stored:?}");
    ensure!(one.limits(&name, 1, 5).await? == LimitChanged::Changed(2), "not changed");
    ensure!(one.limits(&name, 1, 5).await? == LimitChanged::Changed(2), "a repeat was refused");
    ensure!(one.limits(&name, 2, 3).await? == LimitChanged::Changed(3), "not changed");
    let late = one.limits(&name, 1, 5).await?;
    ensure!(matches!(late, LimitChanged::Conflict(_)), "a late repeat was executed: {late:?}");
    let stored = one.backend.limit(&name).await?.ok_or("no limit")?;
    ensure!((stored.limit.get(), stored.version) == (3, 3), "{stored:?}");
    one.gives_back(&held).await?;
    let all = one.wants(&name, 3, 3)?;
    let all = one.permit(&all).await?;
    one.gives_back(&all).await?;
    Ok(())
}

async fn a_name_is_a_lock_or_a_semaphore(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let (semaphore, lock) = (context.name("semaphore"), context.name("lock"));
    let held = one.wants(&semaphore, 1, 1)?;
    let held = one.permit(&held).await?;
    let locked = one.request(&lock, TTL);
    let answer = one.backend.acquire(locked.clone()).await?;
    ensure!(matches!(answer, Answer::Granted(_)), "{answer:?}");
    let wrong = two.request(&semaphore, TTL).with_wait(true);
    let error = two.refused(wrong.clone()).await?;
    ensure!(error.message().contains("semaphore"), "{error}");
    let permit = two.wants(&lock, 1, 1)?.with_wait(true);
    let error = two.refused(permit.clone()).await?;
    ensure!(error.message().contains("lock"), "{error}");
    ensure!(one.backend.limit(&lock).await.is_err(), "a lock has a limit");
    // The client may end what was refused.
    two.backend.release(two.end(&wrong)).await?;
    two.backend.release(two.end(&permit).with_slot(None)).await?;
    let status = one.status(&semaphore).await?;
    ensure!(status.state == State::Permits, "{status:?}");
    ensure!(one.gives_back(&held).await? == Verdict::Released, "the permit was ended");
    let status = one.status(&lock).await?;
    ensure!(status.state == State::Held, "{status:?}");
    one.backend.release(one.end(&locked)).await?;
    Ok(())
}

async fn a_refused_demand_changes_nothing(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("semaphore");
    let held = one.wants(&name, 1, 4)?;
    let held = one.permit(&held).await?;
    for (slots, limit) in [(1, 6), (1, 3), (5, 6)] {
        let request = two.wants(&name, slots, limit)?.with_wait(true);
        let error = two.refused(request.clone()).await?;
        let told = error.message().contains("limit 4") && error.message().contains("set_limit");
        ensure!(told, "{error}");
        two.backend.release(two.end(&request).with_slot(None).with_suspect(true)).await?;
    }
    let stored = one.backend.limit(&name).await?.ok_or("no limit")?;
    ensure!((stored.limit.get(), stored.version) == (4, 1), "{stored:?}");
    let status = one.status(&name).await?;
    ensure!(status.waiters.is_none_or(|waiters| waiters.is_empty()), "a refused one waits");
    ensure!(one.gives_back(&held).await? == Verdict::Released, "the permit was ended");
    Ok(())
}

async fn a_waiter_for_too_many_slots_is_refused(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("semaphore");
    let held = one.wants(&name, 1, 3)?;
    let held = one.permit(&held).await?;
    let heavy = two.wants(&name, 3, 3)?.with_wait(true);
    let answer = two.backend.acquire(heavy.clone()).await?;
    ensure!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
    let light = two.wants(&name, 1, 3)?.with_wait(true);
    let answer = two.backend.acquire(light.clone()).await?;
    ensure!(matches!(answer, Answer::Queued { .. }), "passed the first waiter: {answer:?}");
    ensure!(one.limits(&name, 1, 2).await? == LimitChanged::Changed(2), "not changed");
    let error = two.refused(heavy.clone()).await?;
    ensure!(error.message().contains("limit 2"), "{error}");
    // It asks too, or has been told.
    let next = two.permit(&light).await?;
    ensure!(next.slots == [1], "{:?}", next.slots);
    while let Some(event) = two.events.try_recv() {
        let fits = match &event {
            Event::Refused { attempt, limit, .. } => *attempt == heavy.attempt && limit.get() == 2,
            Event::Permit { attempt, slots, .. } => *attempt == light.attempt && *slots == [1],
            _ => true,
        };
        ensure!(fits, "{event:?}");
    }
    two.gives_back(&next).await?;
    one.gives_back(&held).await?;
    Ok(())
}

async fn a_permit_is_renewed_alone(context: Context) -> Outcome {
    let (mut one, name) = (context.raw().await, context.name("semaphore"));
    let (first, second) = (one.wants(&name, 1, 2)?, one.wants(&name, 1, 2)?);
    let short = Duration::from_secs(5);
    let first = one.permit(&first.with_ttl(short)).await?;
    let second = one.permit(&second.with_ttl(short)).await?;
    let answers = one.backend.renew(&[first.renewal()]).await;
    ensure!(matches!(answers[..], [Ok(Renewed::Renewed | Renewed::Wanted)]), "{answers:?}");
    let status = one.status(&name).await?;
    let permits = status.permits.ok_or("no permits")?;
    let left = |slots: &[u32]| {
        let permit = permits.holders.iter().find(|one| one.slots == slots);
        permit.and_then(|permit| permit.remaining)
    };
    // An engine whose leases are shorter shows that the end of the other one comes first.
    let is_short = one.backend.capability().longest_ttl.is_some_and(|longest| longest <= short);
    let least = if is_short { left(&second.slots).unwrap_or_default() } else { short };
    let prolonged = left(&first.slots).is_some_and(|left| left > least);
    let other = left(&second.slots).is_none_or(|left| left <= short);
    ensure!(prolonged && other, "{permits:?}");
    let (name, attempt, base) = (name.clone(), second.request.attempt, first.grant.tokens.base());
    if base != second.grant.tokens.base() {
        let wrong = Renewal::new(name, attempt, base, TTL).of_permit();
        let answers = one.backend.renew(&[wrong]).await;
        ensure!(matches!(answers[..], [Ok(Renewed::Lost)]), "{answers:?}");
    }
    one.gives_back(&first).await?;
    one.gives_back(&second).await?;
    Ok(())
}

async fn status_shows_the_permits(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("semaphore");
    let (first, second) = (one.wants(&name, 2, 4)?, two.wants(&name, 1, 4)?);
    let (first, second) = (one.permit(&first).await?, two.permit(&second).await?);
    let waits = two.wants(&name, 3, 4)?.with_wait(true);
    two.backend.acquire(waits.clone()).await?;
    let ordered = one.backend.capability().ordered;
    until("the waiter is shown", || async {
        let status = one.status(&name).await;
        let waiters = status.ok().and_then(|status| status.waiters);
        !ordered || waiters.is_some_and(|all| all.len() == 1 && all[0].slots == Some(3))
    })
    .await?;
    let status = one.status(&name).await?;
    ensure!(status.state == State::Permits, "{status:?}");
    let permits = status.permits.ok_or("no permits")?;
    ensure!((permits.limit, permits.held) == (4, 3), "{permits:?}");
    for held in [&first, &second] {
        let shown = permits.holders.iter().find(|one| one.slots == held.slots);
        let token = shown.map(|shown| shown.token);
        ensure!(token == Some(held.grant.tokens.base()), "{permits:?}");
    }
    two.backend.release(two.end(&waits).with_slot(None)).await?;
    one.gives_back(&first).await?;
    two.gives_back(&second).await?;
    let status = one.status(&name).await?;
    let permits = status.permits.ok_or("no permits")?;
    ensure!(status.state == State::Free && permits.held == 0, "{permits:?}");
    Ok(())
}
