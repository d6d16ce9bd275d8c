//! A client that holds each lock in two formats, beside clients that hold it in one of them.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use leasehold_core::backend::{
    AcquireRequest, AlsoBackend, Answer, BoxFuture, Covered, Mark, ReleaseRequest,
};
use leasehold_core::{AttemptId, ClientId, Error, Result, Token};

use super::bench::{got, waits};
use super::*;

/// Two stores, each behind faults, and a client of both.
struct Pair {
    hand: ManualClock,
    stores: [MemoryStore; 2],
    foreign: Faults,
    native: Faults,
    mark: Arc<Marked>,
    both: Client,
}

/// A mark that a test sets.
#[derive(Debug, Default)]
struct Marked {
    is_there: AtomicBool,
    covers: Mutex<Vec<bool>>,
    /// What the next call to let the tokens follow says, if not that they do.
    follow: Mutex<Option<Result<bool>>>,
}

impl Mark for Marked {
    fn cover<'a>(
        &'a self,
        _name: &'a Name,
        _ttl: Duration,
        held: bool,
    ) -> BoxFuture<'a, Result<Covered>> {
        self.covers.lock().unwrap().push(held);
        let covered = match self.is_there.load(Ordering::SeqCst) {
            true => Covered::Marked,
            false => Covered::Open,
        };
        Box::pin(std::future::ready(Ok(covered)))
    }

    fn follow<'a>(
        &'a self,
        _foreign: &'a AcquireRequest,
        _native: Token,
    ) -> BoxFuture<'a, Result<bool>> {
        let said = self.follow.lock().unwrap().take().unwrap_or(Ok(true));
        Box::pin(std::future::ready(said))
    }
}

impl Pair {
    fn new() -> Self {
        let hand = ManualClock::new();
        let stores = [(); 2].map(|()| MemoryStore::with_clock(hand.clock()));
        let faults = |store: &MemoryStore| Faults::before(Arc::new(store.connect()));
        let (foreign, native) = (faults(&stores[0]), faults(&stores[1]));
        let mark = Arc::<Marked>::default();
        let backend = AlsoBackend::new(
            Arc::new(foreign.clone()),
            Arc::new(native.clone()),
            Some(mark.clone()),
        );
        let both = connect(&hand, Arc::new(backend.with_clock(hand.clock())));
        Self { hand, stores, foreign, native, mark, both }
    }

    /// Another client of both stores.
    fn another(&self) -> Client {
        let [foreign, native] = &self.stores;
        let backend =
            AlsoBackend::new(Arc::new(foreign.connect()), Arc::new(native.connect()), None);
        connect(&self.hand, Arc::new(backend.with_clock(self.hand.clock())))
    }

    fn of_library(&self) -> Client {
        connect(&self.hand, Arc::new(self.stores[0].connect()))
    }

    fn without_option(&self) -> Client {
        connect(&self.hand, Arc::new(self.stores[1].connect()))
    }

    async fn pass(&self, time: Duration) {
        bench::pass_by(&self.hand, ms(100), time).await;
    }

    async fn nothing_is_left(&self) {
        self.both.settle().await;
        for one in [self.of_library(), self.without_option()] {
            let status = one.lock("a").status().await.unwrap();
            assert_eq!((status.state, status.waiters), (State::Free, Some(Vec::new())));
        }
    }
}

#[tokio::test]
async fn it_excludes_the_clients_of_both_formats_and_frees_both() {
    let pair = Pair::new();
    for other in [pair.of_library(), pair.without_option()] {
        let guard = pair.both.lock("a").acquire().await.unwrap();
        assert!(other.lock("a").try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        let theirs = other.lock("a").try_acquire().await.unwrap().unwrap();
        assert!(pair.both.lock("a").try_acquire().await.unwrap().is_none());
        pair.both.lock("a").acquire_within(secs(0)).await.unwrap_err();
        theirs.release().await.unwrap();
        pair.nothing_is_left().await;
    }
    let held = pair.without_option().lock("a").acquire().await.unwrap();
    let token = held.token();
    held.release().await.unwrap();
    let guard = pair.both.lock("a").acquire().await.unwrap();
    assert!(guard.token() > token, "the token is the native one");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_the_last_of_both_is_released() {
    let pair = Pair::new();
    let theirs = pair.of_library().lock("a").acquire().await.unwrap();
    let ours = pair.without_option().lock("a").acquire().await.unwrap();
    let waiting = waits(&pair.both.lock("a")).await;
    theirs.release().await.unwrap();
    others_run().await;
    assert!(!waiting.is_finished());
    assert!(
        pair.of_library().lock("a").try_acquire().await.unwrap().is_none(),
        "it is taken first"
    );
    ours.release().await.unwrap();
    got(waiting).await.release().await.unwrap();
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn the_foreign_lease_is_kept_however_long_the_native_wait_is() {
    let pair = Pair::new();
    let ours = pair.without_option().lock("a").acquire().await.unwrap();
    let waiting = waits(&pair.both.lock("a").ttl(secs(3))).await;
    let library = pair.of_library();
    for _ in 0..30 {
        pair.pass(secs(1)).await;
        assert!(library.lock("a").try_acquire().await.unwrap().is_none());
    }
    ours.release().await.unwrap();
    let guard = got(waiting).await;
    for _ in 0..10 {
        pair.pass(secs(1)).await;
        assert!(guard.is_valid());
        for other in [&library, &pair.without_option()] {
            assert!(other.lock("a").try_acquire().await.unwrap().is_none());
        }
    }
    guard.release().await.unwrap();
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn a_foreign_lease_that_ends_during_the_native_wait_is_taken_again_first() {
    let pair = Pair::new();
    let ours = pair.without_option().lock("a").acquire().await.unwrap();
    let waiting = waits(&pair.both.lock("a").ttl(secs(3))).await;
    pair.hand.advance(secs(4)); // A pause: no task runs.
    let theirs = pair.of_library().lock("a").try_acquire().await.unwrap().unwrap();
    ours.release().await.unwrap();
    pair.pass(secs(5)).await;
    assert!(!waiting.is_finished(), "both hold");
    let ours = pair.without_option().lock("a").try_acquire().await.unwrap();
    assert!(ours.is_some(), "the native lock is not kept while the foreign one is waited for");
    drop(ours);
    theirs.release().await.unwrap();
    pair.pass(secs(1)).await;
    got(waiting).await.release().await.unwrap();
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn a_refused_native_acquire_gives_the_foreign_lock_back() {
    let pair = Pair::new();
    pair.native.on_acquire(&[Fault::Refuse(ErrorKind::Refused)]);
    let error = pair.both.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    pair.nothing_is_left().await;
    pair.native.on_acquire(&[Fault::Fail(ErrorKind::Unavailable), Fault::LoseReply]);
    pair.foreign.on_acquire(&[Fault::LoseReply]);
    let waiting = {
        let lock = pair.both.lock("a");
        tokio::spawn(async move { lock.acquire().await })
    };
    pair.pass(secs(5)).await;
    got(waiting).await.release().await.unwrap();
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn a_dropped_acquire_leaves_neither_lock() {
    for hang in [[Fault::Hang].as_slice(), &[]] {
        for at in 0..3 {
            let pair = Pair::new();
            let ours = pair.without_option().lock("a").acquire().await.unwrap();
            match at {
                0 => pair.foreign.on_acquire(hang),
                _ => pair.native.on_acquire(hang),
            }
            let waiting = waits(&pair.both.lock("a")).await;
            if at == 2 {
                ours.release().await.unwrap();
                waiting.abort();
            } else {
                waiting.abort();
                ours.release().await.unwrap();
            }
            others_run().await;
            drop(waiting.await);
            pair.pass(secs(2)).await;
            pair.nothing_is_left().await;
        }
    }
}

#[tokio::test]
async fn the_loss_of_either_is_that_of_the_lease() {
    for which in 0..2 {
        let pair = Pair::new();
        let guard = pair.both.lock("a").acquire().await.unwrap();
        let one = if which == 0 { pair.of_library() } else { pair.without_option() };
        let token = one.lock("a").status().await.unwrap().token.unwrap();
        one.lock("a").force_release(token).await.unwrap();
        pair.pass(secs(11)).await;
        assert!(!guard.is_valid());
        assert_eq!(guard.lost().await, LossReason::NotOwner);
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        pair.pass(secs(1)).await;
        pair.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_renewal_counts_only_if_both_arrive() {
    for which in 0..2 {
        let pair = Pair::new();
        let guard = pair.both.lock("a").ttl(secs(30)).acquire().await.unwrap();
        let deadline = guard.deadline();
        let faults = if which == 0 { &pair.foreign } else { &pair.native };
        faults.cut_renewals(true);
        pair.pass(secs(20)).await;
        assert_eq!(guard.deadline(), deadline);
        pair.pass(secs(10)).await;
        assert!(!guard.is_valid(), "told before the other lease can be granted");
        faults.cut_renewals(false);
        drop(guard);
        pair.pass(secs(20)).await;
        pair.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_release_ends_what_can_be_reached_and_repeats_the_rest() {
    let pair = Pair::new();
    let guard = pair.both.lock("a").acquire().await.unwrap();
    pair.native.on_release(&[Fault::LoseRequest; 2]);
    pair.foreign.on_release(&[Fault::LoseReply]);
    guard.release().await.unwrap_err();
    let theirs = pair.of_library().lock("a").try_acquire().await.unwrap().unwrap();
    theirs.release().await.unwrap();
    pair.pass(secs(2)).await;
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn a_process_that_ends_between_the_two_blocks_nobody_for_longer_than_its_ttl() {
    let pair = Pair::new();
    let (client, ttl) = (ClientId::from_bits(7), secs(30));
    let attempt = AttemptId::new(client, 1, 0);
    let request = AcquireRequest::new(Name::new("a").unwrap(), attempt, ttl).with_wait(true);
    let alone: Arc<dyn Backend> = Arc::new(pair.stores[0].connect());
    assert!(matches!(alone.acquire(request).await.unwrap(), Answer::Granted(_)));
    assert!(pair.both.lock("a").try_acquire().await.unwrap().is_none());
    pair.hand.advance(secs(31));
    pair.both.lock("a").try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn several_clients_of_both_and_of_each_never_hold_together_and_all_get_it() {
    let pair = Pair::new();
    let clients = [
        pair.both.clone(),
        pair.another(),
        pair.another(),
        pair.of_library(),
        pair.without_option(),
    ];
    let (held, tokens) =
        ([(); 2].map(|()| Arc::<AtomicBool>::default()), Arc::<Mutex<Vec<Token>>>::default());
    let mut tasks = Vec::new();
    for (number, client) in clients.into_iter().enumerate() {
        // Clients of one format and those of the other do not exclude each other: that is what marks are for.
        let sides: &[usize] = match number {
            0..=2 => &[0, 1],
            3 => &[0],
            _ => &[1],
        };
        let (held, tokens) = (held.clone(), tokens.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = client.lock("a").acquire().await.unwrap();
                for side in sides {
                    assert!(!held[*side].swap(true, Ordering::SeqCst), "two hold");
                }
                if sides.contains(&1) {
                    tokens.lock().unwrap().push(guard.token());
                }
                tokio::task::yield_now().await;
                for side in sides {
                    held[*side].store(false, Ordering::SeqCst);
                }
                guard.release().await.unwrap();
            }
        }));
    }
    for _ in 0..1000 {
        pair.pass(ms(200)).await;
        if tasks.iter().all(|task| task.is_finished()) {
            break;
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let tokens = tokens.lock().unwrap();
    assert!(tokens.is_sorted() && tokens.len() == 80, "{tokens:?}");
}

#[tokio::test]
async fn under_a_mark_the_foreign_lock_is_enough_while_the_mark_lasts() {
    let pair = Pair::new();
    pair.mark.is_there.store(true, Ordering::SeqCst);
    pair.native.on_acquire(&[Fault::Refuse(ErrorKind::Foreign)]);
    let guard = pair.both.lock("a").acquire().await.unwrap();
    assert!(pair.of_library().lock("a").try_acquire().await.unwrap().is_none());
    let token = pair.of_library().lock("a").status().await.unwrap().token;
    assert_eq!(token, Some(guard.token()));
    assert_eq!(pair.both.lock("a").status().await.unwrap().token, token);
    pair.pass(secs(60)).await;
    assert!(guard.is_valid());
    assert_eq!(
        pair.mark.covers.lock().unwrap().split_first().map(|(first, _)| *first),
        Some(false)
    );
    assert!(pair.mark.covers.lock().unwrap()[1..].iter().all(|held| *held));
    pair.mark.is_there.store(false, Ordering::SeqCst);
    pair.pass(secs(11)).await;
    assert!(!guard.is_valid(), "clients without the option are not refused any more");
    drop(guard);
    pair.pass(secs(1)).await;
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn a_release_under_a_mark_can_be_repeated() {
    let pair = Pair::new();
    pair.mark.is_there.store(true, Ordering::SeqCst);
    pair.native.on_acquire(&[Fault::Refuse(ErrorKind::Foreign)]);
    let guard = pair.both.lock("a").acquire().await.unwrap();
    pair.foreign.on_release(&[Fault::LoseReply]);
    guard.release().await.unwrap_err();
    pair.pass(secs(2)).await;
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn a_forced_release_ends_both() {
    let pair = Pair::new();
    let backend: Arc<dyn Backend> = Arc::new(AlsoBackend::new(
        Arc::new(pair.foreign.clone()),
        Arc::new(pair.native.clone()),
        None,
    ));
    let name = Name::new("a").unwrap();
    let attempt = AttemptId::new(ClientId::from_bits(7), 1, 0);
    let request = AcquireRequest::new(name.clone(), attempt, secs(60));
    let Answer::Granted(grant) = backend.acquire(request).await.unwrap() else { panic!() };
    backend.force_release(&name, grant.tokens.base()).await.unwrap();
    pair.nothing_is_left().await;
    let end = ReleaseRequest::new(name, attempt).with_base(grant.tokens.base());
    let verdict = backend.release(end).await.unwrap().verdict;
    assert_eq!(verdict, leasehold_core::backend::Verdict::Lost);
}

/// A lease of one store may end a moment before that of the other.
#[tokio::test]
async fn a_try_that_gave_the_foreign_lock_back_can_be_repeated() {
    let pair = Pair::new();
    let [foreign, native] = &pair.stores;
    let backend: Arc<dyn Backend> =
        Arc::new(AlsoBackend::new(Arc::new(foreign.connect()), Arc::new(native.connect()), None));
    let ours = pair.without_option().lock("a").acquire().await.unwrap();
    let name = Name::new("a").unwrap();
    let attempt = AttemptId::new(ClientId::from_bits(7), 1, 0);
    let request = AcquireRequest::new(name.clone(), attempt, secs(60));
    for _ in 0..3 {
        let answer = backend.acquire(request.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Busy { .. }), "{answer:?}");
        let theirs = pair.of_library().lock("a").try_acquire().await.unwrap().unwrap();
        theirs.release().await.unwrap();
    }
    ours.release().await.unwrap();
    let Answer::Granted(grant) = backend.acquire(request).await.unwrap() else { panic!() };
    let base = grant.tokens.base();
    let lease = leasehold_core::backend::Renewal::new(name.clone(), attempt, base, secs(60));
    let renewed = backend.renew(&[lease]).await.pop().unwrap().unwrap();
    assert_eq!(renewed, leasehold_core::backend::Renewed::Renewed);
    assert!(pair.of_library().lock("a").try_acquire().await.unwrap().is_none());
    let end = ReleaseRequest::new(name, attempt).with_base(base);
    let verdict = backend.release(end).await.unwrap().verdict;
    assert_eq!(verdict, leasehold_core::backend::Verdict::Released);
    pair.nothing_is_left().await;
}

#[tokio::test]
async fn without_tokens_that_follow_neither_lock_is_held() {
    let pair = Pair::new();
    let say = |said| *pair.mark.follow.lock().unwrap() = Some(said);
    say(Err(Error::new(ErrorKind::Refused, "no right")));
    let error = pair.both.lock("a").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    pair.nothing_is_left().await;
    // It is not known whether the foreign tokens follow: the client asks again. Or the foreign lock was lost meanwhile:
    // another attempt takes both.
    for said in [Err(Error::new(ErrorKind::Unavailable, "silence")), Ok(false)] {
        say(said);
        let lock = pair.both.lock("a");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        pair.pass(secs(10)).await;
        got(waiting).await.release().await.unwrap();
        assert!(pair.mark.follow.lock().unwrap().is_none());
        pair.nothing_is_left().await;
    }
}
