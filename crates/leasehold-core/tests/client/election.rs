//! Elections: one leader at a time, an end in the right order, and observers that see each change.

#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use leasehold_conformance::{Fault, says};
use leasehold_core::{
    Client, Election, ErrorKind, Forced, Leader, Leaders, Leadership, Result, State, Usage,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::bench::{Bench, ms, others_run, secs};

/// Counts the work of leaders; two at a time break the election.
#[derive(Clone, Default)]
struct Judge(Arc<AtomicUsize>);

struct Working(Judge);

impl Judge {
    fn work(&self) -> Working {
        assert_eq!(self.0.fetch_add(1, Ordering::SeqCst), 0, "two leaders work");
        Working(self.clone())
    }

    fn working(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A candidate in a task; its work never ends by itself.
struct Candidate {
    task: JoinHandle<Result<()>>,
    terms: UnboundedReceiver<Leadership>,
}

impl Candidate {
    async fn start(election: Election, judge: &Judge) -> Self {
        let (began, terms) = unbounded_channel();
        let judge = judge.clone();
        let task = tokio::spawn(async move {
            let work = |leadership: Leadership| {
                let working = judge.work();
                assert!(leadership.is_leader());
                began.send(leadership).unwrap();
                async move {
                    let _working = working;
                    pending::<()>().await;
                }
            };
            election.run(work).await
        });
        others_run().await;
        Self { task, terms }
    }

    /// The term that has begun, if there is a new one.
    fn term(&mut self) -> Option<Leadership> {
        self.terms.try_recv().ok()
    }
}

fn of(client: &Client, value: &str) -> Election {
    client.election("a").candidate(value).ttl(secs(30))
}

/// The next change, which has happened already.
async fn seen(leaders: &mut Leaders) -> Option<Leader> {
    tokio::select! {
        biased;
        leader = leaders.next() => leader.expect("the stream goes on"),
        () = others_run() => panic!("the observer sees no change"),
    }
}

async fn sees_nothing_new(leaders: &mut Leaders) {
    tokio::select! {
        biased;
        leader = leaders.next() => panic!("{leader:?}"),
        () = others_run() => {}
    }
}

#[tokio::test]
async fn candidates_lead_one_after_the_other_and_observers_see_each() {
    let (bench, judge) = (Bench::new(), Judge::default());
    let observer = bench.other_client();
    let mut leaders = observer.election("a").observe().await.unwrap();
    assert_eq!(seen(&mut leaders).await, None);
    let others = [bench.other_client(), bench.other_client()];
    let mut first = Candidate::start(of(&bench.client, "10.0.0.7:8080"), &judge).await;
    let mut second = Candidate::start(of(&others[0], "second"), &judge).await;
    let mut third = Candidate::start(others[1].election("a").ttl(secs(30)), &judge).await;
    let lead = first.term().unwrap();
    let leader = seen(&mut leaders).await.unwrap();
    assert_eq!((leader.candidate.as_str(), leader.token), ("10.0.0.7:8080", lead.token()));
    assert!(leader.since_unix_ms.is_some());
    assert_eq!(observer.election("a").leader().await.unwrap(), Some(leader));
    bench.pass(secs(120)).await;
    assert!(lead.is_leader() && second.term().is_none() && third.term().is_none());
    sees_nothing_new(&mut leaders).await;

    first.task.abort();
    others_run().await;
    let next = second.term().unwrap();
    assert!(!lead.is_leader() && next.is_leader() && next.token() > lead.token());
    assert_eq!(seen(&mut leaders).await.unwrap().candidate, "second");

    // The second one dies without a word: there is no leader, then the third.
    let token = next.token();
    assert_eq!(others[0].lock("a").force_release(token).await.unwrap(), Forced::Ended);
    others_run().await;
    let last = third.term().unwrap();
    let leader = seen(&mut leaders).await.unwrap();
    assert_eq!(leader.token, last.token());
    let status = observer.lock("a").status().await.unwrap();
    let holder = status.holder.unwrap();
    assert_eq!(leader.candidate, format!("{}/{}", holder.host, holder.pid));
    assert!(!next.is_leader() && second.term().is_none(), "it campaigns again, behind the others");

    second.task.abort();
    third.task.abort();
    others_run().await;
    assert_eq!(seen(&mut leaders).await, None);
    assert_eq!(judge.working(), 0);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_observer_sees_deletions_and_the_end_of_a_dead_leader() {
    let bench = Bench::new();
    let observer = bench.other_client();
    let mut leaders = observer.election("a").observe().await.unwrap();
    assert_eq!(seen(&mut leaders).await, None);
    let term = of(&bench.client, "one").campaign().await.unwrap();
    let token = term.leadership().token();
    assert_eq!(seen(&mut leaders).await.unwrap().token, token);
    // An operator deletes it: etcd's observer says nothing.
    observer.lock("a").force_release(token).await.unwrap();
    assert_eq!(seen(&mut leaders).await, None);
    drop(term);
    // It is elected again, and then its process dies: nothing is pushed, the lease just ends.
    let term = of(&bench.client, "one").campaign().await.unwrap();
    assert!(seen(&mut leaders).await.unwrap().token > token);
    bench.faults.cut_renewals(true);
    bench.faults.on_release(&[Fault::LoseRequest; 100]);
    std::mem::forget(term);
    bench.pass(secs(29)).await;
    sees_nothing_new(&mut leaders).await;
    bench.pass(ms(1_500)).await;
    assert_eq!(seen(&mut leaders).await, None);
    observer.close().await;
    bench.pass(secs(2)).await;
    assert_eq!(leaders.next().await, None, "a closed client ends the stream");
}

#[tokio::test]
async fn a_process_that_was_paused_does_not_lead_at_the_first_look() {
    let bench = Bench::new();
    let term = of(&bench.client, "one").campaign().await.unwrap();
    let leadership = term.leadership().clone();
    bench.hand.advance(secs(31)); // No task runs: neither a renewal nor a timer.
    assert!(!leadership.is_leader() && leadership.remaining() == ms(0));
    says(&leadership.ensure(ms(0)).unwrap_err(), ErrorKind::Lost, &["ensure a: "]);
    let next = of(&bench.other_client(), "two").campaign().await.unwrap();
    assert!(next.leadership().token() > leadership.token() && !leadership.is_leader());
}

/// Work that does not end after its cancellation, until the test lets it.
struct Stubborn {
    task: JoinHandle<Result<()>>,
    leadership: Leadership,
    /// The leadership had ended when the work was told to end.
    published_first: Arc<AtomicBool>,
    end: Arc<tokio::sync::Notify>,
}

impl Stubborn {
    async fn lead(election: Election, judge: &Judge) -> Self {
        let (began, mut terms) = unbounded_channel();
        let published_first = Arc::new(AtomicBool::new(false));
        let end = Arc::new(tokio::sync::Notify::new());
        let (judge, published, may_end) = (judge.clone(), published_first.clone(), end.clone());
        let task = tokio::spawn(async move {
            let work = |leadership: Leadership| {
                let (working, may_end) = (judge.work(), may_end.clone());
                let published = published.clone();
                began.send(leadership.clone()).unwrap();
                async move {
                    let _working = working;
                    leadership.cancellation_token().cancelled().await;
                    published.store(!leadership.is_leader(), Ordering::SeqCst);
                    may_end.notified().await;
                }
            };
            election.run(work).await
        });
        others_run().await;
        let leadership = terms.try_recv().unwrap();
        Self { task, leadership, published_first, end }
    }
}

/// Kubernetes PR 139504: the lease was released before the work of the leader had ended.
#[tokio::test]
async fn a_lost_leader_resigns_only_after_its_work_has_ended() {
    let (bench, judge) = (Bench::new(), Judge::default());
    let other = bench.other_client();
    let stubborn = Stubborn::lead(of(&bench.client, "one").max_hold(secs(60)), &judge).await;
    let mut next = Candidate::start(of(&other, "two"), &judge).await;
    bench.pass(secs(58)).await;
    assert!(stubborn.published_first.load(Ordering::SeqCst), "not told, or not before");
    assert!(!stubborn.leadership.is_leader());
    assert!(stubborn.leadership.remaining() > secs(1), "the time for the work to end");
    assert!(next.term().is_none() && judge.working() == 1, "resigned while the work goes on");
    stubborn.end.notify_one();
    others_run().await;
    assert!(next.term().is_some(), "it has not resigned after its work");
    assert_eq!(stubborn.leadership.remaining(), ms(0));
    stubborn.task.abort();
    next.task.abort();
}

#[tokio::test]
async fn work_that_never_ends_is_dropped_at_the_deadline() {
    let (bench, judge) = (Bench::new(), Judge::default());
    let other = bench.other_client();
    let stubborn = Stubborn::lead(of(&bench.client, "one"), &judge).await;
    let mut next = Candidate::start(of(&other, "two"), &judge).await;
    bench.faults.cut_renewals(true);
    bench.pass(secs(28)).await;
    assert!(!stubborn.leadership.is_leader() && judge.working() == 1);
    for _ in 0..50 {
        bench.pass(ms(100)).await; // The judge looks at each new leader.
    }
    assert!(next.term().is_some());
    assert!(!stubborn.task.is_finished(), "it campaigns again");
    stubborn.task.abort();
    next.task.abort();
}

/// kubernetes#44887: a renewal that hung kept the leader in office after its lease had ended.
#[tokio::test]
async fn a_renewal_that_hangs_does_not_outlive_the_lease() {
    let (bench, judge) = (Bench::new(), Judge::default());
    let other = bench.other_client();
    bench.faults.on_renew(&[Fault::Late]);
    bench.faults.on_renew(&[Fault::Hang; 1000]);
    let mut first = Candidate::start(of(&bench.client, "one"), &judge).await;
    let mut second = Candidate::start(of(&other, "two"), &judge).await;
    let lead = first.term().unwrap();
    bench.pass(ms(30_500)).await;
    let next = second.term().expect("the lease has ended");
    assert!(!lead.is_leader() && next.is_leader());
    bench.faults.arrive();
    bench.pass(secs(5)).await;
    assert!(!lead.is_leader() && first.term().is_none(), "a late reply revived it");
    assert!(next.is_leader());
    first.task.abort();
    second.task.abort();
}

/// fabric8#7350: leadership was announced before the write that acquires it had succeeded.
#[tokio::test]
async fn leadership_is_not_announced_before_the_store_has_granted_it() {
    let (bench, judge) = (Bench::new(), Judge::default());
    bench.faults.on_acquire(&[Fault::Late, Fault::LoseRequest, Fault::Fail(ErrorKind::Refused)]);
    let mut leaders = bench.other_client().election("a").observe().await.unwrap();
    assert_eq!(seen(&mut leaders).await, None);
    let mut candidate = Candidate::start(of(&bench.client, "one"), &judge).await;
    assert!(candidate.term().is_none() && judge.working() == 0, "announced too early");
    sees_nothing_new(&mut leaders).await;
    bench.faults.arrive();
    others_run().await;
    let lead = candidate.term().unwrap();
    assert_eq!(seen(&mut leaders).await.unwrap().token, lead.token());
    candidate.task.abort();
}

/// etcd#21128: the key of a failed campaign stayed, and was elected later.
#[tokio::test]
async fn a_campaign_that_fails_leaves_no_candidate_behind() {
    let bench = Bench::new();
    let other = bench.other_client();
    let term = of(&other, "leader").campaign().await.unwrap();
    let election = of(&bench.client, "late").wait(secs(5));
    let failed = tokio::spawn({
        let election = election.clone();
        async move { election.run(|_| async {}).await }
    });
    bench.pass(ms(5_100)).await;
    let error = failed.await.unwrap().unwrap_err();
    says(&error, ErrorKind::Timeout, &["acquire a: timed out after 5s", "held by "]);
    let dropped = tokio::spawn(async move { election.campaign().await });
    others_run().await;
    dropped.abort();
    bench.client.settle().await;
    let status = other.lock("a").status().await.unwrap();
    assert_eq!((status.waiters, bench.client.usage()), (Some(Vec::new()), Usage::default()));
    term.resign().await.unwrap();
    bench.nothing_is_left().await;
}

/// etcd#22123: after a resignation that failed, the session forgot that it was the leader, and
/// no other candidate could lead until its lease had ended.
#[tokio::test]
async fn a_resignation_that_fails_is_repeated_until_it_succeeds() {
    let bench = Bench::new();
    bench.faults.on_release(&[Fault::LoseRequest; 3]);
    let election = bench.client.election("a").ttl(secs(24 * 3600));
    let kept = Arc::new(std::sync::Mutex::new(None));
    let running = tokio::spawn({
        let kept = kept.clone();
        async move {
            let work = |leadership: Leadership| {
                *kept.lock().unwrap() = Some(leadership);
                async {}
            };
            election.run(work).await
        }
    });
    bench.pass(secs(1)).await;
    running.await.unwrap().unwrap();
    assert!(!kept.lock().unwrap().as_ref().unwrap().is_leader());
    bench.pass(secs(60)).await;
    bench.nothing_is_left().await;
    let next = bench.other_client();
    of(&next, "two").campaign().await.unwrap().resign().await.unwrap();
}

#[tokio::test]
async fn work_that_panics_ends_the_term_and_the_caller_gets_the_panic() {
    let (bench, judge) = (Bench::new(), Judge::default());
    let mut next = Candidate::start(of(&bench.other_client(), "two"), &judge).await;
    next.task.abort();
    others_run().await;
    drop(next.term());
    for in_future in [false, true] {
        let kept = Arc::new(std::sync::Mutex::new(None));
        let (election, slot) = (of(&bench.client, "one"), kept.clone());
        let running = tokio::spawn(async move {
            let work = |leadership: Leadership| {
                *slot.lock().unwrap() = Some(leadership);
                assert!(in_future, "in the closure");
                async { panic!("in the future") }
            };
            election.run::<_, _, ()>(work).await
        });
        let panic = running.await.unwrap_err();
        assert!(panic.is_panic());
        let leadership: Leadership = kept.lock().unwrap().take().unwrap();
        assert!(!leadership.is_leader() && leadership.cancellation_token().is_cancelled());
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_dropped_run_cancels_its_work_before_it_resigns() {
    struct OnDrop<F: FnMut()>(F);
    impl<F: FnMut()> Drop for OnDrop<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let bench = Bench::new();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (election, noted, store) = (of(&bench.client, "one"), order.clone(), bench.store.clone());
    let running = tokio::spawn(async move {
        let work = |leadership: Leadership| {
            let (noted, store) = (noted.clone(), store.clone());
            async move {
                let _end = OnDrop(|| {
                    let mut noted = noted.lock().unwrap();
                    noted.push(("leads", leadership.is_leader()));
                    noted.push(("cancelled", leadership.cancellation_token().is_cancelled()));
                    let client = crate::bench::connect(
                        &leasehold_core::clock::ManualClock::new(),
                        Arc::new(store.connect()),
                    );
                    let look = client.lock("a");
                    let status = futures_util::FutureExt::now_or_never(look.status());
                    noted.push(("held", status.unwrap().unwrap().state == State::Held));
                });
                pending::<()>().await;
            }
        };
        election.run(work).await
    });
    others_run().await;
    running.abort();
    others_run().await;
    let order = order.lock().unwrap().clone();
    assert_eq!(order, [("leads", false), ("cancelled", true), ("held", true)]);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn no_old_leadership_comes_back_while_it_campaigns_again() {
    let (bench, judge) = (Bench::new(), Judge::default());
    let mut candidate = Candidate::start(of(&bench.client, "one").max_hold(secs(60)), &judge).await;
    let mut before: Vec<Leadership> = Vec::new();
    for _ in 0..5 {
        let lead = candidate.term().expect("it leads again");
        assert!(before.iter().all(|old| !old.is_leader() && old.token() < lead.token()));
        before.push(lead);
        bench.pass(secs(61)).await;
    }
    candidate.task.abort();
    assert!(candidate.task.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_campaign_survives_a_store_that_is_away() {
    let (bench, judge) = (Bench::new(), Judge::default());
    bench.faults.on_acquire(&[Fault::LoseRequest; 40]);
    let limited = of(&bench.client, "limited").wait(secs(20));
    let limited = tokio::spawn(async move { limited.campaign().await });
    let mut candidate = Candidate::start(of(&bench.other_client(), "b"), &judge).await;
    assert!(candidate.term().is_some());
    bench.faults.on_acquire(&[Fault::LoseRequest; 1000]);
    bench.pass(secs(25)).await;
    assert_eq!(limited.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    candidate.task.abort();

    let bench = Bench::new();
    bench.faults.on_acquire(&[Fault::LoseRequest; 200]);
    let mut candidate = Candidate::start(of(&bench.client, "one"), &judge).await;
    bench.pass(secs(12)).await;
    assert!(!candidate.task.is_finished() && candidate.term().is_none(), "it gave up");
    bench.pass(secs(600)).await;
    assert!(candidate.term().is_some());
    candidate.task.abort();
}

#[tokio::test]
async fn observers_see_the_current_one_of_several_candidates_in_a_process() {
    let (bench, judge) = (Bench::new(), Judge::default());
    let mut leaders = bench.other_client().election("a").observe().await.unwrap();
    assert_eq!(seen(&mut leaders).await, None);
    let mut all = Vec::new();
    for value in ["one", "two", "three"] {
        all.push(Candidate::start(of(&bench.client, value), &judge).await);
    }
    let waits = bench.client.lock("a").ttl(secs(30));
    let waiting = tokio::spawn(async move { waits.acquire().await });
    others_run().await;
    for (candidate, value) in all.iter_mut().zip(["one", "two", "three"]) {
        let lead = candidate.term().unwrap();
        let leader = seen(&mut leaders).await.unwrap();
        assert_eq!((leader.candidate.as_str(), leader.token), (value, lead.token()));
        candidate.task.abort();
        bench.pass(secs(1)).await;
    }
    let guard = waiting.await.unwrap().unwrap();
    let status = bench.client.lock("a").status().await.unwrap();
    assert_eq!(status.holder.unwrap().metadata, None, "the holder of the lock is no candidate");
    // And the other way round: a plain holder of this process, then a candidate.
    let mut last = Candidate::start(of(&bench.client, "last"), &judge).await;
    guard.release().await.unwrap();
    others_run().await;
    assert!(last.term().is_some());
    let status = bench.client.lock("a").status().await.unwrap();
    assert_eq!(status.holder.unwrap().metadata.as_deref(), Some("last"));
    last.task.abort();
}

#[tokio::test]
async fn wrong_names_and_candidates_are_refused_before_anything_is_sent() {
    let bench = Bench::new();
    let most = "x".repeat(1024);
    for (name, value, part) in [
        ("", "a", "name: is empty"),
        ("a", "", "candidate: is empty; a candidate has 1 to 1024 bytes"),
        ("a", &format!("{most}y"), "candidate: has 1025 bytes; a candidate has 1 to 1024 bytes"),
        ("a", "b\n", "candidate: has the control character U+000A at byte 1"),
    ] {
        let election = bench.client.election(name).candidate(value);
        let error = election.campaign().await.unwrap_err();
        says(&error, ErrorKind::Invalid, &["campaign: ", part]);
        let error = election.run(|_| async {}).await.unwrap_err();
        says(&error, ErrorKind::Invalid, &[part]);
    }
    let election = bench.client.election("a").observe_every(ms(0));
    says(&election.observe().await.unwrap_err(), ErrorKind::Invalid, &["observe_every: 0ns"]);
    assert_eq!(bench.faults.calls(), 0);
    let term = bench.client.election("a").candidate(most.clone()).campaign().await.unwrap();
    let mut leaders = bench.client.election("a").observe().await.unwrap();
    assert_eq!(seen(&mut leaders).await.unwrap().candidate, most);
    term.leadership().ensure(secs(29)).unwrap();
    says(&term.leadership().ensure(secs(31)).unwrap_err(), ErrorKind::Lost, &["ensure a: "]);
    term.resign().await.unwrap();
}
