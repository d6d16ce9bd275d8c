//! Waiting at the engine: order, pushes, rotation, waiters that die.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Event, Grant, Term};
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, LeaseKind, State};

use super::process::url;
use super::protocol::{TTL, granted};
use super::{case, secs};
use crate::case::{Raw, prepared};
use crate::holder::Process;
use crate::{Bound, Case, Context, Outcome, Stopwatch, ensure, until};

/// Waiters that are killed in a line.
const DEAD: usize = 2;
/// So many that no engine removes them in two steps.
const MANY_DEAD: usize = 150;
/// The case that says when an engine knows of a waiter that it has died.
const DEAD_WAITER: &str = "a_dead_waiter_is_passed_over";

pub(super) const CASES: &[Case] = &[
    case!(
        waiters_stand_in_line,
        |c| c.ordered,
        "Processes that wait are served first come, first served; one that has the lock may pass it on to its own tasks first, for 20 ms"
    ),
    case!(bounded
        a_release_is_pushed,
        |c| c.push,
        "A released lock wakes the next waiter, without asking again, within this time"
    ),
    case!(status_shows_the_line, |c| c.ordered, "Status shows who waits, in order"),
    case!(
        a_waiter_that_leaves_leaves_nothing,
        |c| c.ordered,
        "A waiter that times out or is dropped leaves no entry, at any position"
    ),
    case!(
        rotation_hands_on_and_stands_in_line_again,
        |c| c.rotate,
        "Giving up and asking anew is one step, and lets the others go first"
    ),
    case!(bounded
        a_dead_waiter_is_passed_over,
        |c| c.ordered,
        "Waiters whose process was killed keep the free lock from the next waiter for at most this time"
    ),
    case!(
        a_try_gets_a_free_lock_behind_very_many_dead_waiters,
        |c| c.ordered,
        "A try that does not wait gets a free lock, however many waiters have died in its line"
    ),
    case!(
        an_unconfirmed_offer_passes_on,
        |c| c.ordered && c.rotate && c.lease == LeaseKind::Ttl,
        "A lock handed to a waiter that does not react passes on within the offer's time"
    ),
    case!(
        a_late_offer_is_granted_again,
        |c| c.ordered && c.rotate && c.lease == LeaseKind::Ttl,
        "An offer that its waiter accepts too late is granted again, if no other client holds the lock"
    ),
    case!(
        whoever_does_not_care_for_order_may_pass,
        // Where the line alone says who holds, a lock that ends is the next one's, not free.
        |c| c.ordered && c.unfair && c.lease == LeaseKind::Ttl,
        "A lock whose lease has expired may be taken out of order by a request with `fair(false)`"
    ),
    case!(
        nobody_jumps_the_line,
        |c| c.ordered,
        "A free lock goes to clients that wait before clients that only try"
    ),
];

fn waiting(raw: &mut Raw, name: &leasehold_core::Name) -> AcquireRequest {
    raw.request(name, TTL).with_wait(true)
}

/// Waits until the engine has granted this attempt, by push or by answer, as a client does: a
/// push that it is the first in line says when to ask.
async fn turn(
    raw: &mut Raw,
    request: &AcquireRequest,
) -> Result<Grant, Box<dyn std::error::Error + Send + Sync>> {
    let clock = Clock::system();
    let mut ask_at = Deadline::after(clock.now(), secs(10));
    loop {
        let event = clock.within(Some(ask_at), raw.events.recv()).await;
        match event {
            Some(None) => return Err("the backend has dropped its event sink".into()),
            Some(Some(Event::Granted { attempt, grant, .. })) if attempt == request.attempt => {
                return Ok(grant);
            }
            Some(Some(Event::Next { attempt, ask_again, .. })) if attempt == request.attempt => {
                ask_at = ask_at.min(Deadline::after(clock.now(), ask_again));
                continue;
            }
            Some(Some(Event::Freed { .. })) | None => {}
            Some(Some(_)) => continue,
        }
        let backend = raw.backend.clone();
        until("a waiter that was woken gets the lock", || async {
            matches!(backend.acquire(request.clone()).await, Ok(Answer::Granted(_)))
        })
        .await?;
        return Ok(granted(raw.backend.acquire(request.clone()).await?)?);
    }
}

async fn queue(
    context: &Context,
    name: &leasehold_core::Name,
    length: usize,
) -> Result<Vec<(Raw, AcquireRequest)>, Box<dyn std::error::Error + Send + Sync>> {
    let mut queue = Vec::new();
    for place in 0..length as u64 {
        let mut raw = context.raw().await;
        let request = waiting(&mut raw, name);
        for _ in 0..2 {
            let answer = raw.backend.acquire(request.clone()).await?;
            let at = match answer {
                Answer::Queued { place, .. } => place,
                ref other => return Err(format!("{other:?}").into()),
            };
            ensure_place(at, place)?;
        }
        queue.push((raw, request));
    }
    Ok(queue)
}

fn ensure_place(at: Option<u64>, wanted: u64) -> Result<(), String> {
    match at {
        Some(at) if at != wanted => Err(format!("at place {at}, not {wanted}")),
        _ => Ok(()),
    }
}

async fn waiters_stand_in_line(context: Context) -> Outcome {
    let name = context.name("lock");
    let mut holder = context.raw().await;
    let request = holder.request(&name, TTL);
    let grant = holder.take(&request).await?;
    let mut queue = queue(&context, &name, 4).await?;
    holder.give(&request, &grant).await?;
    let mut last = grant.tokens.top();
    for (raw, request) in &mut queue {
        let grant = turn(raw, request).await?;
        ensure!(grant.tokens.base() > last, "tokens went back");
        last = grant.tokens.top();
        raw.give(request, &grant).await?;
    }
    Ok(())
}

async fn a_release_is_pushed(context: Context) -> Outcome {
    let name = context.name("lock");
    let (mut holder, mut waiter) = (context.raw().await, context.raw().await);
    let request = holder.request(&name, TTL);
    let grant = holder.take(&request).await?;
    let wait = waiting(&mut waiter, &name);
    waiter.backend.acquire(wait.clone()).await?;
    let stopwatch = Stopwatch::start();
    holder.give(&request, &grant).await?;
    turn(&mut waiter, &wait).await?;
    context.in_time(stopwatch.elapsed(), TTL, 0)
}

async fn status_shows_the_line(context: Context) -> Outcome {
    let name = context.name("lock");
    let mut holder = context.raw().await;
    let request = holder.request(&name, TTL);
    holder.take(&request).await?;
    let queue = queue(&context, &name, 3).await?;
    let waiters = holder.status(&name).await?.waiters.ok_or("the line is not known")?;
    let shown: Vec<_> = waiters.iter().map(|waiter| waiter.holder.attempt).collect();
    let wanted: Vec<_> = queue.iter().map(|(_, request)| request.attempt).collect();
    ensure!(shown == wanted, "{waiters:?}");
    let (pid, what) = (std::process::id(), Some("conformance"));
    for waiter in &waiters {
        let who = &waiter.holder;
        ensure!(who.pid == pid && who.metadata.as_deref() == what, "{who:?}");
        ensure!(waiter.since_unix_ms >= waiters[0].since_unix_ms, "{waiters:?}");
    }
    Ok(())
}

async fn a_waiter_that_leaves_leaves_nothing(context: Context) -> Outcome {
    let name = context.name("lock");
    let mut holder = context.raw().await;
    let request = holder.request(&name, TTL);
    let grant = holder.take(&request).await?;
    let mut queue = queue(&context, &name, 4).await?;
    for gone in [3, 1, 0] {
        let (raw, request) = queue.remove(gone);
        raw.backend.release(raw.end(&request)).await?;
    }
    let waiters = holder.status(&name).await?.waiters.unwrap_or_default();
    ensure!(waiters.len() == 1, "{waiters:?}");
    holder.give(&request, &grant).await?;
    let (raw, request) = &mut queue[0];
    let grant = turn(raw, request).await?;
    raw.give(request, &grant).await?;
    let waiters = raw.status(&name).await?.waiters.unwrap_or_default();
    ensure!(waiters.is_empty(), "{waiters:?}");
    Ok(())
}

async fn rotation_hands_on_and_stands_in_line_again(context: Context) -> Outcome {
    let name = context.name("lock");
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let first = one.request(&name, TTL);
    let grant = one.take(&first).await?;
    let alone = waiting(&mut one, &name);
    let release = one.end_of(&first, &grant).with_then(alone.clone());
    let then = one.backend.release(release).await?.then.ok_or("no answer to then")?;
    let grant = granted(then)?;
    let other = waiting(&mut two, &name);
    two.backend.acquire(other.clone()).await?;
    let again = waiting(&mut one, &name);
    let release = one.end_of(&alone, &grant).with_then(again.clone());
    let then = one.backend.release(release).await?.then;
    ensure!(matches!(then, Some(Answer::Queued { .. })), "{then:?}");
    let grant = turn(&mut two, &other).await?;
    two.give(&other, &grant).await?;
    turn(&mut one, &again).await?;
    Ok(())
}

async fn a_dead_waiter_is_passed_over(context: Context) -> Outcome {
    let name = context.name("lock");
    let mut holder = context.raw().await;
    let request = holder.request(&name, TTL);
    let grant = holder.take(&request).await?;
    let (ttl, mut dead) = (secs(6), Vec::new());
    for place in 0..DEAD {
        dead.push(Waits::begin(&context, &name, ttl).await?);
        until("it stands in line", || async {
            let waiters = holder.status(&name).await.ok().and_then(|status| status.waiters);
            waiters.is_some_and(|waiters| waiters.len() > place)
        })
        .await?;
    }
    // A client, since its own timer is part of the promise.
    let next = context.client().await;
    let lock = next.lock(name.as_str()).ttl(ttl);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("the last one stands in line", || async {
        let waiters = holder.status(&name).await.ok().and_then(|status| status.waiters);
        waiters.is_some_and(|waiters| waiters.len() > DEAD)
    })
    .await?;
    dead.clear();
    let stopwatch = Stopwatch::start();
    holder.give(&request, &grant).await?;
    let guard = waiting.await??;
    let took = stopwatch.elapsed();
    guard.release().await?;
    context.in_time(took, ttl, DEAD as u32)
}

async fn a_try_gets_a_free_lock_behind_very_many_dead_waiters(context: Context) -> Outcome {
    let name = context.name("lock");
    let (mut holder, mut dead) = (context.raw().await, context.raw().await);
    let request = holder.request(&name, secs(6));
    holder.take(&request).await?;
    for _ in 0..MANY_DEAD {
        let request = waiting(&mut dead, &name).with_ttl(secs(6));
        dead.backend.acquire(request).await?;
    }
    // All of them at once, and no client releases.
    drop((holder, dead));
    let next = context.client().await;
    // Where the engine knows only after a while that a waiter has died, it shows none then.
    let known = context.subject.bound(DEAD_WAITER) == Bound::AtOnce;
    let free = async || {
        let status = next.lock(name.as_str()).status().await.ok()?;
        let none = status.waiters.is_some_and(|waiters| waiters.is_empty());
        (status.state == State::Free && (known || none)).then_some(())
    };
    let limit = Deadline::after(Clock::system().now(), secs(90));
    while free().await.is_none() {
        let now = Clock::system().now();
        ensure!(!limit.has_passed(now), "the dead hold or wait for the lock");
        Clock::system().sleep(Duration::from_millis(100)).await;
    }
    let guard = next.lock(name.as_str()).try_acquire().await?;
    let guard = guard.ok_or("the lock is free, and the try was told that it is taken")?;
    guard.release().await?;
    Ok(())
}

/// A waiter that is killed when dropped: a process, or where the store is in this one a connection.
enum Waits {
    Process { _process: Process },
    Connection { _raw: Raw },
}

impl Waits {
    async fn begin(
        context: &Context,
        name: &leasehold_core::Name,
        ttl: Duration,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        if let Ok(url) = url(context) {
            return Ok(Self::Process { _process: Process::waiting(url, name.as_str(), ttl)? });
        }
        let mut raw = context.raw().await;
        let request = waiting(&mut raw, name).with_ttl(ttl);
        raw.backend.acquire(request).await?;
        Ok(Self::Connection { _raw: raw })
    }
}

async fn an_unconfirmed_offer_passes_on(context: Context) -> Outcome {
    let name = context.name("lock");
    let (mut holder, mut deaf, mut next) =
        (context.raw().await, context.raw().await, context.raw().await);
    let request = holder.request(&name, TTL);
    let grant = holder.take(&request).await?;
    let first = waiting(&mut deaf, &name);
    deaf.backend.acquire(first.clone()).await?;
    let second = waiting(&mut next, &name);
    next.backend.acquire(second.clone()).await?;
    holder.give(&request, &grant).await?;
    let offered = turn(&mut deaf, &first).await?;
    ensure!(matches!(offered.term, Term::Offer(_)), "{offered:?}");
    let backend = next.backend.clone();
    until("the offer passes on", || async {
        matches!(backend.acquire(second.clone()).await, Ok(Answer::Granted(_)))
    })
    .await?;
    Ok(())
}

async fn whoever_does_not_care_for_order_may_pass(context: Context) -> Outcome {
    let (mut holder, mut passer) = (context.raw().await, context.raw().await);
    let (name, mut waiter, wait) = prepared(Duration::from_millis(150), |ttl| {
        let name = context.name(&format!("lock for {ttl:?}"));
        let (short, backend) = (holder.request(&name, ttl), holder.backend.clone());
        let context = context.clone();
        async move {
            granted(backend.acquire(short).await?)?;
            let mut waiter = context.raw().await;
            let wait = waiting(&mut waiter, &name);
            let answer = waiter.backend.acquire(wait.clone()).await?;
            ensure!(matches!(answer, Answer::Queued { .. }), "held, but {answer:?}");
            Ok((name, waiter, wait))
        }
    })
    .await?;
    let backend = holder.backend.clone();
    until("the lease has ended", || async {
        backend.status(&name).await.is_ok_and(|status| status.state == State::Free)
    })
    .await?;
    let pass = passer.request(&name, TTL).with_fair(false);
    let grant = passer.take(&pass).await?;
    let answer = waiter.backend.acquire(wait.clone()).await?;
    ensure!(matches!(answer, Answer::Queued { .. }), "the waiter was answered {answer:?}");
    passer.give(&pass, &grant).await?;
    turn(&mut waiter, &wait).await?;
    Ok(())
}

async fn a_late_offer_is_granted_again(context: Context) -> Outcome {
    let name = context.name("lock");
    let (mut holder, mut waiter) = (context.raw().await, context.raw().await);
    let request = holder.request(&name, TTL);
    let grant = holder.take(&request).await?;
    let wait = waiting(&mut waiter, &name).with_ttl(Duration::from_millis(150));
    waiter.backend.acquire(wait.clone()).await?;
    holder.give(&request, &grant).await?;
    turn(&mut waiter, &wait).await?;
    let backend = holder.backend.clone();
    until("the offer has ended", || async {
        backend.status(&name).await.is_ok_and(|status| status.state == State::Free)
    })
    .await?;
    waiter.take(&wait).await?;
    Ok(())
}

async fn nobody_jumps_the_line(context: Context) -> Outcome {
    let name = context.name("lock");
    let (mut holder, mut waiter, mut passer) =
        (context.raw().await, context.raw().await, context.raw().await);
    let request = holder.request(&name, TTL);
    let grant = holder.take(&request).await?;
    let wait = waiting(&mut waiter, &name);
    waiter.backend.acquire(wait.clone()).await?;
    holder.give(&request, &grant).await?;
    let pass = passer.request(&name, TTL);
    let answer = passer.backend.acquire(pass).await?;
    ensure!(matches!(answer, Answer::Busy { .. }), "{answer:?}");
    turn(&mut waiter, &wait).await?;
    Ok(())
}
