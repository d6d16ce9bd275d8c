//! Read-write locks: readers share, writers are alone, and neither waits for ever.

#![allow(clippy::unwrap_used)]

use leasehold_conformance::{Fault, says};
use leasehold_core::backend::Event;
use leasehold_core::{
    Error, ErrorKind, LossReason, Name, ReadGuard, RwLock, State, Token, Upgraded, WriteGuard,
};
use tokio::task::JoinHandle;

use crate::bench::{Bench, ms, others_run, secs};

/// Starts a task that waits to read.
async fn reads_later(lock: &RwLock) -> JoinHandle<Result<ReadGuard, Error>> {
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.read().await });
    others_run().await;
    assert!(!waiting.is_finished());
    waiting
}

/// Starts a task that waits to write.
async fn writes_later(lock: &RwLock) -> JoinHandle<Result<WriteGuard, Error>> {
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.write().await });
    others_run().await;
    assert!(!waiting.is_finished());
    waiting
}

async fn got<G>(waiting: JoinHandle<Result<G, Error>>) -> G {
    others_run().await;
    assert!(waiting.is_finished(), "its turn has come");
    waiting.await.unwrap().unwrap()
}

fn written(upgraded: Upgraded) -> WriteGuard {
    match upgraded {
        Upgraded::Write(write) => write,
        other => panic!("{other:?}"),
    }
}

fn refused(upgraded: Upgraded) -> ReadGuard {
    match upgraded {
        Upgraded::Refused(read) => read,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn readers_share_a_phase_and_its_token_and_writers_are_alone() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let (one, two) = (lock.read().await.unwrap(), other.read().await.unwrap());
    assert_eq!(one.token(), two.token());
    assert!(lock.try_write().await.unwrap().is_none());
    assert!(bench.client.lock("a").try_acquire().await.unwrap().is_none(), "a lock is the writer");
    let status = lock.status().await.unwrap();
    assert_eq!((status.state, status.readers.len()), (State::Shared, 2));
    one.release().await.unwrap();
    two.release().await.unwrap();
    let write = lock.write().await.unwrap();
    assert!(other.try_read().await.unwrap().is_none());
    assert!(lock.try_read().await.unwrap().is_none());
    drop(write);
    bench.client.settle().await;
    let write = lock.write().await.unwrap();
    let before = write.token();
    write.release().await.unwrap();
    let read = other.read().await.unwrap();
    assert!(before < read.token());
    read.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn further_readers_of_a_client_join_without_a_call() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a");
    let first = lock.read().await.unwrap();
    let calls = bench.faults.calls();
    let mut others = Vec::new();
    for _ in 0..1000 {
        others.push(lock.read().await.unwrap());
    }
    let again = lock.try_read().await.unwrap().unwrap();
    assert_eq!(bench.faults.calls(), calls);
    assert_eq!(bench.client.usage().held, 1);
    assert!(others.iter().all(|guard| guard.token() == first.token()));
    first.release().await.unwrap();
    drop(again);
    others.truncate(1);
    assert!(others[0].is_valid());
    assert_eq!(bench.faults.calls(), calls, "the last one ends the lease");
    others.clear();
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.calls(), calls + 1);
}

#[tokio::test]
async fn readers_that_wait_together_enter_with_one_lease() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let write = other.write().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(reads_later(&lock).await);
    }
    waiting.remove(2).abort(); // Behind the front.
    waiting.remove(0).abort(); // The front: the next one continues its attempt.
    others_run().await;
    assert_eq!(lock.status().await.unwrap().waiters.unwrap().len(), 1);
    write.release().await.unwrap();
    let mut guards = Vec::new();
    for one in waiting {
        guards.push(got(one).await);
    }
    assert_eq!(bench.client.usage().held, 1);
    assert!(guards.iter().all(|guard| guard.is_valid() && guard.token() == guards[0].token()));
    drop(guards);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_reader_that_is_cancelled_as_it_enters_leaves_nothing() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let write = other.write().await.unwrap();
    let (one, two) = (reads_later(&lock).await, reads_later(&lock).await);
    write.release().await.unwrap();
    let read = loop {
        if one.is_finished() {
            break one.await.unwrap().unwrap();
        }
        tokio::task::yield_now().await;
    };
    two.abort(); // It may have been given its share of the lease, and not have run.
    drop(read);
    drop(two.await);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_waiting_writer_shuts_the_phase_for_readers_of_every_client() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let first = lock.read().await.unwrap();
    let writer = writes_later(&other).await;
    let late = reads_later(&lock).await;
    let later = reads_later(&other).await;
    assert!(lock.try_read().await.unwrap().is_none());
    first.release().await.unwrap();
    let write = got(writer).await;
    assert!(!late.is_finished() && !later.is_finished());
    let second_writer = writes_later(&lock).await;
    write.release().await.unwrap();
    let (late, later) = (got(late).await, got(later).await);
    assert_eq!(late.token(), later.token(), "they enter together, before the next writer");
    assert!(!second_writer.is_finished());
    drop((late, later));
    bench.client.settle().await;
    got(second_writer).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_local_writer_shuts_the_phase_for_local_readers() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a");
    let first = lock.read().await.unwrap();
    let writer = writes_later(&lock).await;
    let late = reads_later(&lock).await;
    first.release().await.unwrap();
    let write = got(writer).await;
    write.release().await.unwrap();
    got(late).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_writer_is_heard_though_its_message_is_lost() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a").ttl(secs(30));
    let other = bench.other_client().rw_lock("a");
    let first = lock.read().await.unwrap();
    bench.faults.cut_pushes(true);
    let writer = writes_later(&other).await;
    let second = lock.read().await.unwrap(); // The client does not know of the writer.
    bench.faults.cut_pushes(false);
    bench.pass(secs(11)).await; // The answer to the renewal says it.
    assert!(lock.try_read().await.unwrap().is_none());
    drop((first, second));
    bench.client.settle().await;
    got(writer).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_message_that_a_writer_waits_counts_though_it_overtakes_the_grant() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let write = other.write().await.unwrap();
    let reader = reads_later(&lock).await;
    let waiters = lock.status().await.unwrap().waiters.unwrap();
    let attempt = waiters[0].holder.attempt;
    bench.faults.say(Event::Wanted { name: Name::new("a").unwrap(), attempt });
    others_run().await;
    write.release().await.unwrap();
    let read = got(reader).await;
    let calls = bench.faults.calls();
    let second = lock.read().await.unwrap();
    assert!(bench.faults.calls() > calls, "the first lease is shut: this one asked");
    drop((read, second));
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_dead_reader_keeps_a_writer_out_for_its_own_ttl_only() {
    let bench = Bench::new();
    let dead = bench.client.rw_lock("a").ttl(secs(3));
    let long = bench.other_client().rw_lock("a").ttl(secs(30));
    let lost = dead.read().await.unwrap();
    let read = long.read().await.unwrap();
    bench.faults.cut_renewals(true);
    bench.pass(secs(4)).await;
    assert_eq!(lost.lost().await, LossReason::Expired);
    assert_eq!(
        long.status().await.unwrap().readers.len(),
        1,
        "a renewal renews its own lease only"
    );
    assert!(read.is_valid());
    read.release().await.unwrap();
    let write = long.try_write().await.unwrap().unwrap();
    assert!(write.token() > lost.token());
    says(&lost.release().await.unwrap_err(), ErrorKind::Lost, &["release a: "]);
    write.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_read_lease_is_renewed_while_a_task_reads() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a").ttl(secs(3));
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    bench.pass(secs(30)).await;
    assert!(one.is_valid() && two.is_valid());
    drop(one);
    bench.pass(secs(30)).await;
    assert!(two.is_valid());
    two.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_downgrade_lets_the_waiting_readers_in_and_no_writer() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let write = lock.write().await.unwrap();
    let before = write.token();
    let (writer, reader) = (writes_later(&other).await, reads_later(&other).await);
    let local = writes_later(&lock).await;
    let read = write.downgrade().await.unwrap();
    assert!(read.token() > before);
    let beside = got(reader).await;
    assert_eq!(beside.token(), read.token());
    assert!(!writer.is_finished() && !local.is_finished());
    assert!(lock.try_read().await.unwrap().is_none(), "a writer waits: the phase is shut");
    drop((read, beside));
    bench.client.settle().await;
    got(writer).await.release().await.unwrap();
    got(local).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_upgrade_needs_to_be_alone_and_never_waits() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let (one, two) = (lock.read().await.unwrap(), other.read().await.unwrap());
    let one = refused(one.try_upgrade().await.unwrap());
    let two = refused(two.try_upgrade().await.unwrap());
    assert!(one.is_valid() && two.is_valid());
    bench.pass(secs(40)).await;
    assert!(one.is_valid(), "renewed after the refusal");
    two.release().await.unwrap();
    let local = lock.read().await.unwrap();
    let one = refused(one.try_upgrade().await.unwrap());
    drop(local);
    let before = one.token();
    let write = written(one.try_upgrade().await.unwrap());
    assert!(write.token() > before);
    assert!(other.try_read().await.unwrap().is_none());
    bench.pass(secs(40)).await;
    assert!(write.is_valid());
    let read = write.downgrade().await.unwrap();
    let writer = writes_later(&other).await;
    let read = refused(read.try_upgrade().await.unwrap());
    read.release().await.unwrap();
    got(writer).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn conversions_survive_lost_requests_and_replies() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a");
    for fault in [Fault::LoseRequest, Fault::LoseReply, Fault::Duplicate] {
        let write = lock.write().await.unwrap();
        let mut last: Token = write.token();
        bench.faults.on_convert(&[fault]);
        let converting = tokio::spawn(write.downgrade());
        bench.pass(secs(1)).await;
        let read = got(converting).await;
        assert!(read.token() > last, "{fault:?}");
        last = read.token();
        bench.faults.on_convert(&[fault]);
        let converting = tokio::spawn(read.try_upgrade());
        bench.pass(secs(1)).await;
        let write = written(got(converting).await);
        assert!(write.token() > last, "{fault:?}");
        write.release().await.unwrap();
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_conversion_that_is_dropped_or_never_answered_leaves_nothing() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a").ttl(secs(3));
    for hangs in [false, true] {
        let write = lock.write().await.unwrap();
        bench.faults.on_convert(&[Fault::LoseReply, Fault::Hang]);
        let converting = tokio::spawn(write.downgrade());
        others_run().await;
        if hangs {
            bench.pass(secs(5)).await;
            let error = converting.await.unwrap().unwrap_err();
            says(&error, ErrorKind::Unavailable, &["downgrade a: "]);
        } else {
            converting.abort();
            converting.await.unwrap_err();
        }
        bench.nothing_is_left().await;
        let read = lock.read().await.unwrap();
        bench.faults.on_convert(&[Fault::LoseReply, Fault::Hang]);
        let converting = tokio::spawn(read.try_upgrade());
        others_run().await;
        bench.pass(ms(100)).await;
        if hangs {
            bench.pass(secs(5)).await;
            let error = converting.await.unwrap().unwrap_err();
            says(&error, ErrorKind::Unavailable, &["upgrade a: "]);
        } else {
            converting.abort();
            converting.await.unwrap_err();
        }
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_lost_lease_is_not_converted() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let write = lock.write().await.unwrap();
    other.force_release(write.token()).await.unwrap();
    let error = write.downgrade().await.unwrap_err();
    says(&error, ErrorKind::Lost, &["downgrade a: "]);
    let read = lock.read().await.unwrap();
    other.force_release(read.token()).await.unwrap();
    others_run().await;
    let error = read.try_upgrade().await.unwrap_err();
    says(&error, ErrorKind::Lost, &["upgrade a: "]);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn options_that_are_not_allowed_send_nothing() {
    let bench = Bench::new();
    let calls = bench.faults.calls();
    let error = bench.client.rw_lock("a").min_hold(secs(1)).read().await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["acquire a: min_hold: 1s"]);
    let error = bench.client.rw_lock("").read().await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["acquire: name: "]);
    let error = bench.client.rw_lock("a").ttl(ms(1)).try_read().await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["acquire a: ttl: "]);
    let write = bench.client.rw_lock("a").write().await.unwrap();
    let again = write.reenter().unwrap();
    let error = write.downgrade().await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["downgrade a: guard: other guards share"]);
    assert!(again.is_valid());
    drop(again);
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.calls(), calls + 2);
}

#[tokio::test]
async fn tasks_with_other_options_have_a_read_lease_of_their_own() {
    let bench = Bench::new();
    let long = bench.client.rw_lock("a").read().await.unwrap();
    let short = bench.client.rw_lock("a").lease(secs(2)).read().await.unwrap();
    assert_eq!(bench.client.usage().held, 2);
    bench.pass(secs(3)).await;
    assert!(long.is_valid() && !short.is_valid());
    drop((long, short));
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_writer_that_waits_during_a_conversion_does_not_end_the_new_lease() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    for upgrades in [false, true] {
        let converting = if upgrades {
            let read = lock.read().await.unwrap();
            bench.faults.on_convert(&[Fault::LoseReply]);
            tokio::spawn(async move { written(read.try_upgrade().await.unwrap()).reenter() })
        } else {
            let write = lock.write().await.unwrap();
            bench.faults.on_convert(&[Fault::LoseReply]);
            tokio::spawn(async move { write.downgrade().await.unwrap().reenter() })
        };
        others_run().await;
        let writer = writes_later(&other).await; // The engine tells the new attempt.
        bench.pass(secs(5)).await;
        let guard = converting.await.unwrap().unwrap();
        assert!(guard.is_valid() && !writer.is_finished(), "two holders");
        assert!(lock.try_read().await.unwrap().is_none(), "the phase is shut");
        drop(guard);
        bench.client.settle().await;
        got(writer).await.release().await.unwrap();
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_reader_does_not_join_a_lease_that_ends_at_a_fixed_time() {
    let bench = Bench::new();
    for bounded in [false, true] {
        let lock = bench.client.rw_lock("a");
        let lock = if bounded { lock.max_hold(secs(10)) } else { lock.lease(secs(10)) };
        let first = lock.read().await.unwrap();
        bench.pass(secs(8)).await;
        let second = lock.read().await.unwrap();
        bench.pass(secs(4)).await;
        assert!(!first.is_valid());
        assert!(second.is_valid(), "it has the whole time that it asked for");
        drop((first, second));
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn readers_that_wait_together_enter_together_before_the_next_writer() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a");
    let (other, third) = (bench.other_client().rw_lock("a"), bench.other_client().rw_lock("a"));
    let write = other.write().await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..4 {
        readers.push(reads_later(&lock).await);
    }
    let writer = writes_later(&third).await;
    let local = writes_later(&lock).await;
    write.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(got(reader).await);
    }
    assert!(guards.iter().all(|guard| guard.token() == guards[0].token()));
    assert!(lock.try_read().await.unwrap().is_none(), "a later reader does not join");
    assert!(!writer.is_finished() && !local.is_finished());
    drop(guards);
    bench.client.settle().await;
    got(writer).await.release().await.unwrap();
    got(local).await.release().await.unwrap();
    bench.nothing_is_left().await;
}
