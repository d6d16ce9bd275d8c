//! Read-write locks: readers share a phase, writers are alone, and neither waits forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, ConvertRequest, Converted, Grant, Mode, ReleaseRequest, Verdict,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    Capability, Client, Deadline, Forced, LeaseKind, LossReason, Name, Now, ReadGuard, ReadOrder,
    RwLock, State, Upgraded, WriteGuard,
};

use super::{case, free, ms, secs};
use crate::case::{Raw, prepared, since, until_within};
use crate::{Case, Context, Outcome, ensure, until};

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(1_500);

pub(super) const CASES: &[Case] = &[
    case!(
        readers_share_a_phase_and_its_token,
        shared,
        "Readers hold a read-write lock together, with one token; a writer is alone, with a larger one"
    ),
    case!(
        a_waiting_writer_keeps_later_readers_out,
        ordered,
        "Once a writer waits, later readers wait too, and enter together when it releases, before the next writer"
    ),
    case!(
        a_dead_reader_keeps_a_writer_out_for_its_own_ttl,
        |c| shared(c) && c.lease == LeaseKind::Ttl,
        "A reader that dies keeps writers out for its own ttl; renewals of other readers do not prolong it"
    ),
    case!(
        a_late_release_of_a_reader_touches_no_other,
        shared,
        "A release of a reader that is repeated or late ends the lease of no other reader or writer"
    ),
    case!(
        readers_and_writers_are_served_in_their_order,
        fifo,
        "Where one queue orders readers and writers, a reader waits for the writers before it alone, and adjacent readers enter together"
    ),
    case!(
        a_downgrade_lets_readers_in_up_to_the_first_writer,
        fifo,
        "A downgrade there makes a writer a reader in one step: the readers before the first writer enter with it, and no writer gets in between"
    ),
    case!(
        a_downgrade_lets_waiting_readers_in_and_no_writer,
        phase_fair,
        "A downgrade makes a writer a reader in one step: waiting readers enter with it, and no writer gets in between"
    ),
    case!(
        only_a_sole_reader_is_upgraded,
        shared,
        "An upgrade succeeds only for the sole reader, never waits, and leaves a reader that it refuses its lease"
    ),
    case!(
        a_repeated_conversion_gives_a_reader_the_same_lease,
        shared,
        "A downgrade or upgrade that is repeated gives the same lease; once refused, an upgrade stays refused"
    ),
    case!(
        status_shows_all_readers,
        shared,
        "Status shows all readers, and which waiters wait to read"
    ),
    case!(
        a_forced_release_ends_all_readers,
        |c| shared(c) && c.force_release,
        "A forced release of a read phase ends the leases of all its readers"
    ),
    case!(
        a_writer_is_never_beside_a_reader,
        shared,
        "Under load no writer holds beside a reader, nothing is left behind, and no task waits forever"
    ),
];

fn shared(capability: &Capability) -> bool {
    capability.shared
}

fn ordered(capability: &Capability) -> bool {
    capability.shared && capability.ordered
}

fn phase_fair(capability: &Capability) -> bool {
    ordered(capability) && capability.read_order == ReadOrder::PhaseFair
}

fn fifo(capability: &Capability) -> bool {
    ordered(capability) && capability.read_order == ReadOrder::Fifo
}

impl Raw {
    fn reads(&mut self, context: &Context) -> AcquireRequest {
        self.request(&context.name("lock"), TTL).with_mode(Mode::Shared)
    }

    fn writes(&mut self, context: &Context) -> AcquireRequest {
        self.request(&context.name("lock"), TTL)
    }

    async fn busy(&self, request: &AcquireRequest) -> Outcome {
        let answer = self.backend.acquire(request.clone()).await?;
        ensure!(matches!(answer, Answer::Busy { .. }), "{:?} granted: {answer:?}", request.mode);
        Ok(())
    }

    async fn leave(&self, request: &AcquireRequest, grant: &Grant) -> Outcome<Verdict> {
        let release = self.end(request).with_base(grant.tokens.base());
        Ok(self.backend.release(release).await?.verdict)
    }

    async fn convert(&self, request: &ConvertRequest) -> Outcome<Converted> {
        Ok(self.backend.convert(request.clone()).await?)
    }
}

/// Runs steps with leases of a short ttl. If the machine is paused, leases are lost that should
/// last: then all begins anew with a longer ttl. A client reports a loss a tenth of the ttl early.
async fn late_is_anew<F>(steps: impl Fn(Duration) -> F) -> Outcome
where
    F: Future<Output = Outcome>,
{
    prepared(SHORT * 4 / 5, |time| steps(time * 5 / 4)).await
}

/// The end of a lease as a conversion names it.
fn ends(request: &AcquireRequest, grant: &Grant) -> ReleaseRequest {
    let base = grant.tokens.base();
    ReleaseRequest::new(request.name.clone(), request.attempt).with_base(base).with_last(base)
}

fn held(converted: Converted) -> Result<Grant, String> {
    match converted {
        Converted::Granted(grant) => Ok(grant),
        other => Err(format!("not converted: {other:?}")),
    }
}

async fn readers_share_a_phase_and_its_token(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let (first, second) = (one.reads(&context), two.reads(&context));
    let (a, b) = (one.take(&first).await?, two.take(&second).await?);
    ensure!(a.tokens.base() == b.tokens.base(), "two tokens in a phase");
    let again = one.take(&first).await?;
    ensure!(again.tokens.base() == a.tokens.base(), "a repeated request gave another lease");
    let writer = two.writes(&context);
    two.busy(&writer).await?;
    ensure!(one.leave(&first, &a).await? == Verdict::Released, "not released");
    two.busy(&writer).await?;
    ensure!(two.leave(&second, &b).await? == Verdict::Released, "not released");
    let grant = two.take(&writer).await?;
    ensure!(grant.tokens.base() > a.tokens.base(), "the writer's token is not larger");
    let late = one.reads(&context);
    one.busy(&late).await?;
    ensure!(two.leave(&writer, &grant).await? == Verdict::Released, "not released");
    let next = one.take(&late).await?;
    ensure!(next.tokens.base() > grant.tokens.base(), "the reader's token is not larger");
    one.leave(&late, &next).await?;
    Ok(())
}

async fn a_waiting_writer_keeps_later_readers_out(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let three = context.client().await;
    let name = context.name("lock");
    let (lock, other, third) = (one.rw_lock(&name), two.rw_lock(&name), three.rw_lock(&name));
    let first = lock.read().await?;
    let writer = tokio::spawn({
        let other = other.clone();
        async move { other.write().await }
    });
    let waits = |many: usize| {
        let lock = lock.clone();
        async move {
            until("the waiters are queued", || async {
                let status = lock.status().await;
                status.is_ok_and(|status| status.waiters.is_some_and(|all| all.len() == many))
            })
            .await
        }
    };
    waits(1).await?;
    ensure!(third.try_read().await?.is_none(), "a reader joined though a writer waits");
    // Tasks of the reading client join its lease until the client is notified of the writer.
    let knows = async || lock.try_read().await.is_ok_and(|joined| joined.is_none());
    until("the reading client knows that a writer waits", knows).await?;
    let mut readers = Vec::new();
    for (at, lock) in [&lock, &third].into_iter().enumerate() {
        let lock = lock.clone();
        readers.push(tokio::spawn(async move { lock.read().await }));
        waits(at + 2).await?;
    }
    let last = tokio::spawn({
        let lock = context.client().await.rw_lock(&name);
        async move { lock.write().await }
    });
    waits(4).await?;
    first.release().await?;
    let write = writer.await??;
    ensure!(readers.iter().all(|reader| !reader.is_finished()), "a reader beside the writer");
    write.release().await?;
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(reader.await??);
    }
    ensure!(guards[0].token() == guards[1].token(), "the readers did not enter together");
    ensure!(!last.is_finished(), "the second writer beside the readers");
    drop(guards);
    last.await??.release().await?;
    free(&one, &name).await
}

/// Redisson PR 7098 and PR 7251: the renewal of one reader prolonged the lease of another, dead one.
async fn a_dead_reader_keeps_a_writer_out_for_its_own_ttl(context: Context) -> Outcome {
    late_is_anew(|ttl| one_reader_dies(context.clone(), ttl)).await
}

async fn one_reader_dies(context: Context, ttl: Duration) -> Outcome {
    let mut dead = context.raw().await;
    let client = context.client().await;
    let name = context.name("lock");
    let lock = client.rw_lock(&name).ttl(ttl);
    let alive = lock.read().await?;
    let request = dead.request(&name, ttl).with_mode(Mode::Shared);
    let grant = dead.take(&request).await?; // It is never renewed.
    until_within(ttl + secs(20), "the dead reader has gone", || async {
        let alone = lock.status().await.is_ok_and(|status| status.readers.len() == 1);
        alone || !alive.is_valid()
    })
    .await?;
    ensure!(alive.is_valid(), "the living reader was not renewed");
    alive.release().await?;
    let write = lock.write_within(secs(20)).await?;
    ensure!(write.token() > grant.tokens.base(), "the writer's token is not larger");
    ensure!(dead.leave(&request, &grant).await? != Verdict::Released, "released what was lost");
    ensure!(write.is_valid(), "the late release ended the writer");
    write.release().await?;
    free(&client, &name).await
}

async fn a_late_release_of_a_reader_touches_no_other(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let (first, second) = (one.reads(&context), two.reads(&context));
    let (a, b) = (one.take(&first).await?, two.take(&second).await?);
    ensure!(one.leave(&first, &a).await? == Verdict::Released, "not released");
    ensure!(one.leave(&first, &a).await? != Verdict::Lost, "a repeated release said lost");
    let writer = one.writes(&context);
    one.busy(&writer).await?;
    ensure!(two.leave(&second, &b).await? == Verdict::Released, "the other reader was ended");
    let grant = one.take(&writer).await?;
    two.leave(&second, &b).await?;
    one.leave(&first, &a).await?;
    let late = two.reads(&context);
    two.busy(&late).await?;
    ensure!(one.leave(&writer, &grant).await? == Verdict::Released, "the writer was ended");
    Ok(())
}

async fn a_downgrade_lets_waiting_readers_in_and_no_writer(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let three = context.client().await;
    let name = context.name("lock");
    let lock = one.rw_lock(&name);
    let write = lock.write().await?;
    let before = write.token();
    let writer = tokio::spawn({
        let lock = two.rw_lock(&name);
        async move { lock.write().await }
    });
    let queued = |many: usize| {
        let lock = lock.clone();
        async move {
            until("the waiters are queued", || async {
                let status = lock.status().await;
                status.is_ok_and(|status| status.waiters.is_some_and(|all| all.len() == many))
            })
            .await
        }
    };
    queued(1).await?;
    let reader = tokio::spawn({
        let lock = three.rw_lock(&name);
        async move { lock.read().await }
    });
    queued(2).await?;
    let read = write.downgrade().await?;
    ensure!(read.token() > before, "the token did not grow");
    let beside = reader.await??;
    ensure!(beside.token() == read.token(), "the reader entered another phase");
    ensure!(!writer.is_finished(), "a writer beside readers");
    read.release().await?;
    beside.release().await?;
    let write = writer.await??;
    ensure!(write.is_valid(), "not valid");
    write.release().await?;
    free(&one, &name).await
}

/// Waits until this many clients wait for a lock.
async fn queued(lock: &RwLock, many: usize) -> Outcome {
    until("the waiters are queued", || async {
        let status = lock.status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|all| all.len() == many))
    })
    .await?;
    Ok(())
}

/// The clients that wait for a lock, in their order; the last of them is queued.
struct Line {
    lock: RwLock,
    many: usize,
}

impl Line {
    async fn read(&mut self, client: &Client) -> Outcome<Waiting<ReadGuard>> {
        let lock = client.rw_lock(self.lock.name()?.as_str());
        self.add(tokio::spawn(async move { lock.read().await })).await
    }

    async fn write(&mut self, client: &Client) -> Outcome<Waiting<WriteGuard>> {
        let lock = client.rw_lock(self.lock.name()?.as_str());
        self.add(tokio::spawn(async move { lock.write().await })).await
    }

    async fn add<T>(&mut self, waiting: Waiting<T>) -> Outcome<Waiting<T>> {
        self.many += 1;
        queued(&self.lock, self.many).await?;
        Ok(waiting)
    }
}

type Waiting<T> = tokio::task::JoinHandle<leasehold_core::Result<T>>;

async fn readers_and_writers_are_served_in_their_order(context: Context) -> Outcome {
    let mut clients = Vec::new();
    for _ in 0..7 {
        clients.push(context.client().await);
    }
    let lock = clients[0].rw_lock(context.name("lock"));
    let mut line = Line { lock: lock.clone(), many: 0 };
    let first = lock.write().await?;
    let one = line.read(&clients[1]).await?;
    let two = line.read(&clients[2]).await?;
    let second = line.write(&clients[3]).await?;
    let three = line.read(&clients[4]).await?;
    let third = line.write(&clients[5]).await?;
    let four = line.read(&clients[6]).await?;
    let mut before = first.token();
    first.release().await?;
    let (one, two) = (one.await??, two.await??);
    ensure!(one.token() == two.token() && one.token() > before, "another phase");
    queued(&lock, 4).await?;
    let waits = !second.is_finished() && !three.is_finished() && !four.is_finished();
    ensure!(waits, "a client overtook a writer that waits");
    before = one.token();
    // The first of a run may leave before the last: the phase goes on.
    one.release().await?;
    queued(&lock, 4).await?;
    ensure!(two.is_valid() && !second.is_finished(), "a writer beside a reader");
    two.release().await?;
    let second = second.await??;
    ensure!(second.token() > before, "the writer's token is not larger");
    queued(&lock, 3).await?;
    ensure!(!three.is_finished() && !four.is_finished(), "a reader beside the writer");
    before = second.token();
    second.release().await?;
    let three = three.await??;
    ensure!(three.token() > before, "the reader's token is not larger");
    queued(&lock, 2).await?;
    ensure!(!third.is_finished() && !four.is_finished(), "a client overtook a writer");
    before = three.token();
    three.release().await?;
    let third = third.await??;
    ensure!(third.token() > before && !four.is_finished(), "not in their order");
    before = third.token();
    third.release().await?;
    let four = four.await??;
    ensure!(four.token() > before, "the reader's token is not larger");
    four.release().await?;
    free(&clients[0], lock.name()?).await
}

async fn a_downgrade_lets_readers_in_up_to_the_first_writer(context: Context) -> Outcome {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(context.client().await);
    }
    let lock = clients[0].rw_lock(context.name("lock"));
    let mut line = Line { lock: lock.clone(), many: 0 };
    let write = lock.write().await?;
    let beside = line.read(&clients[1]).await?;
    let writer = line.write(&clients[2]).await?;
    let behind = line.read(&clients[3]).await?;
    let before = write.token();
    let read = write.downgrade().await?;
    ensure!(read.token() > before, "the token did not grow");
    let beside = beside.await??;
    ensure!(beside.token() == read.token(), "the reader entered another phase");
    queued(&lock, 2).await?;
    ensure!(!writer.is_finished(), "a writer beside readers");
    ensure!(!behind.is_finished(), "a reader overtook a writer that waits");
    ensure!(lock.try_read().await?.is_none(), "a reader joined though a writer waits");
    let phase = read.token();
    read.release().await?;
    beside.release().await?;
    let write = writer.await??;
    ensure!(write.is_valid() && !behind.is_finished(), "a reader beside the writer");
    // It was queued before the token of the phase was made.
    ensure!(write.token() > phase, "the writer's token is not larger");
    let before = write.token();
    write.release().await?;
    let behind = behind.await??;
    ensure!(behind.token() > before, "the reader's token is not larger");
    behind.release().await?;
    free(&clients[0], lock.name()?).await
}

async fn only_a_sole_reader_is_upgraded(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let (lock, other) = (one.rw_lock(&name), two.rw_lock(&name));
    let (first, second) = (lock.read().await?, other.read().await?);
    let Upgraded::Refused(first) = first.try_upgrade().await? else {
        return Err("upgraded beside another reader".into());
    };
    ensure!(first.is_valid() && second.is_valid(), "a refusal ended a lease");
    let before = second.token();
    first.release().await?;
    let Upgraded::Write(write) = second.try_upgrade().await? else {
        return Err("the sole reader was refused".into());
    };
    ensure!(write.token() > before, "the token did not grow");
    ensure!(lock.try_read().await?.is_none(), "a reader beside the writer");
    write.release().await?;
    // The upgraded lease does not stay in the way of the tasks of its client.
    other.write_within(secs(20)).await?.release().await?;
    free(&one, &name).await
}

async fn a_repeated_conversion_gives_a_reader_the_same_lease(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let writer = one.writes(&context);
    let grant = one.take(&writer).await?;
    let reader = one.reads(&context);
    let down = ConvertRequest::new(ends(&writer, &grant), reader.clone());
    let first = held(one.convert(&down).await?)?;
    let again = held(one.convert(&down.clone().with_again(true)).await?)?;
    ensure!(first.tokens.base() == again.tokens.base(), "a repeated downgrade gave another lease");
    ensure!(first.tokens.base() > grant.tokens.base(), "the token did not grow");
    let beside = two.reads(&context);
    let other = two.take(&beside).await?;
    let second = one.writes(&context);
    let up = ConvertRequest::new(ends(&reader, &first), second.clone());
    for request in [up.clone(), up.clone().with_again(true)] {
        let refused = one.convert(&request).await?;
        ensure!(matches!(refused, Converted::Refused { .. }), "beside a reader: {refused:?}");
    }
    two.leave(&beside, &other).await?;
    let refused = one.convert(&up).await?;
    ensure!(matches!(refused, Converted::Refused { .. }), "a late copy succeeded: {refused:?}");
    let third = one.writes(&context);
    let up = ConvertRequest::new(ends(&reader, &first), third.clone());
    let upgraded = held(one.convert(&up).await?)?;
    let again = held(one.convert(&up.clone().with_again(true)).await?)?;
    ensure!(upgraded.tokens.base() == again.tokens.base(), "a repeated upgrade gave another lease");
    ensure!(one.leave(&third, &upgraded).await? == Verdict::Released, "not released");
    let lost = one.convert(&up).await?;
    ensure!(!matches!(lost, Converted::Granted(_)), "a lost lease was converted: {lost:?}");
    Ok(())
}

async fn status_shows_all_readers(context: Context) -> Outcome {
    let (mut one, mut two) = (context.raw().await, context.raw().await);
    let name = context.name("lock");
    let (first, second) = (one.reads(&context), two.reads(&context));
    let (a, b) = (one.take(&first).await?, two.take(&second).await?);
    let status = one.status(&name).await?;
    let mut readers: Vec<_> = status.readers.iter().map(|reader| reader.attempt).collect();
    let mut expected = vec![first.attempt, second.attempt];
    readers.sort_unstable();
    expected.sort_unstable();
    ensure!(status.state == State::Shared && readers == expected, "{status:?}");
    ensure!(status.token == Some(a.tokens.base()), "{status:?}");
    one.leave(&first, &a).await?;
    two.leave(&second, &b).await?;
    let status = one.status(&name).await?;
    ensure!(status.state == State::Free && status.readers.is_empty(), "{status:?}");
    Ok(())
}

async fn a_forced_release_ends_all_readers(context: Context) -> Outcome {
    late_is_anew(|ttl| all_readers_are_ended(context.clone(), ttl)).await
}

async fn all_readers_are_ended(context: Context, ttl: Duration) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let (lock, other) = (one.rw_lock(&name).ttl(ttl), two.rw_lock(&name).ttl(ttl));
    let (first, second) = (lock.read().await?, other.read().await?);
    ensure!(lock.force_release(first.token()).await? == Forced::Ended, "not ended");
    let write = lock.write_within(secs(20)).await?;
    ensure!(write.token() > first.token(), "the token did not grow");
    for guard in [first, second] {
        let reason = guard.lost().await;
        ensure!(reason == LossReason::NotOwner, "{reason:?}");
    }
    write.release().await?;
    free(&one, &name).await
}

/// How often the case below begins anew if the machine is paused.
const LATE: u32 = 5;

async fn a_writer_is_never_beside_a_reader(context: Context) -> Outcome {
    for run in 0..LATE {
        if mixed(&context, &context.name(&format!("lock {run}"))).await? {
            return Ok(());
        }
    }
    Err("the machine stood still in each run".into())
}

/// Returns false if a lease was lost because the machine stood still: two guards may overlap then.
async fn mixed(context: &Context, name: &Name) -> Outcome<bool> {
    // Readers count up, a writer sets the sum far below zero.
    let (inside, overlaps) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    let first = context.client().await;
    for number in 0..4_u64 {
        let client = if number == 0 { first.clone() } else { context.client().await };
        for task in 0..4_u64 {
            let lock = client.rw_lock(name);
            let (inside, overlaps) = (inside.clone(), overlaps.clone());
            tasks.push(tokio::spawn(async move {
                let mut in_time = true;
                for round in 0..6 {
                    if (number + task + round) % 4 == 0 {
                        let guard = lock.write().await?;
                        let before = inside.fetch_sub(1_000, Ordering::SeqCst);
                        overlaps.fetch_add(u64::from(before != 0), Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_add(1_000, Ordering::SeqCst);
                        let (start, deadline) = (Clock::system().now(), guard.deadline());
                        in_time &= released(guard.release().await, start, deadline)?;
                    } else {
                        let guard = lock.read().await?;
                        let before = inside.fetch_add(1, Ordering::SeqCst);
                        overlaps.fetch_add(u64::from(before < 0), Ordering::SeqCst);
                        tokio::time::sleep(ms(1)).await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        let (start, deadline) = (Clock::system().now(), guard.deadline());
                        in_time &= released(guard.release().await, start, deadline)?;
                    }
                }
                Ok::<_, leasehold_core::Error>(in_time)
            }));
        }
    }
    let mut in_time = true;
    for task in tasks {
        in_time &= task.await??;
    }
    ensure!(!in_time || overlaps.load(Ordering::SeqCst) == 0, "{overlaps:?} overlaps");
    free(&first, name).await?;
    Ok(in_time)
}

/// Returns false if the lease had expired, or the release took longer than a client waits. Then the
/// machine stood still; no other error is excused.
fn released(
    result: Result<(), leasehold_core::Error>,
    start: Now,
    deadline: Option<Deadline>,
) -> Result<bool, leasehold_core::Error> {
    let Err(error) = result else { return Ok(true) };
    let expired = deadline.is_some_and(|at| at.has_passed(Clock::system().now()));
    match expired || since(start) >= secs(5) {
        true => Ok(false),
        false => Err(error),
    }
}
