//! Semaphores: permits of processes that end, answers that are lost, and many permits at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_conformance::holder::Process;
use leasehold_conformance::until;
use leasehold_core::backend::{Answer, Event};
use leasehold_core::proto::semaphore::Demand;
use leasehold_core::{Client, State};
use leasehold_test_servers::{Direction, Proxy};
use tokio::sync::Mutex;

use crate::record_proxy::{EXISTS, Loss, RecordProxy};
use crate::{Test, connect, plain, raw, secs, test, waits};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_process_gives_exactly_its_slots_back),
    test!(a_permit_whose_creation_was_not_answered_is_found_again),
    test!(a_waiter_for_a_permit_keeps_its_wait_over_the_end_of_its_session),
    test!(connections_that_break_give_no_slot_twice),
    test!(a_grant_that_arrives_late_takes_no_slot_back),
    test!(a_waiter_does_not_rely_on_a_view_that_is_over),
    test!(a_first_waiter_is_woken_by_a_release_and_by_a_new_limit),
    test!(hundreds_of_permits_have_slots_of_their_own),
    test!(permits_that_are_tried_at_once_all_fit),
    test!(a_semaphore_and_a_lock_that_begin_at_once_never_share_a_name),
    test!(waiters_of_a_semaphore_wake_one_another),
];

/// Waits until so many slots are in use, and so many clients wait.
async fn in_use(client: &Client, name: &str, slots: u32, waiters: usize) {
    until("so many slots are in use", || async {
        client.lock(name).status().await.is_ok_and(|status| {
            status.permits.is_some_and(|permits| permits.held == slots)
                && status.waiters.is_some_and(|all| all.len() == waiters)
        })
    })
    .await
    .unwrap();
}

/// redisson#3046: the permits of a holder that crashed never came back.
async fn a_killed_process_gives_exactly_its_slots_back() {
    let server = plain();
    let client = connect(&server.url()).await;
    let semaphore = client.semaphore("a", 4).ttl(secs(10));
    let first = semaphore.acquire().await.unwrap();
    let url = server.url() + "?session=6s";
    let mut dead = Process::with_slots(&url, "a", secs(2), (2, 4)).unwrap();
    let last = semaphore.acquire().await.unwrap();
    assert_eq!((first.slots(), last.slots()), (&[0][..], &[3][..]));
    let token = dead.token;
    dead.kill();
    let next = semaphore.acquire_many_within(2, secs(60)).await.unwrap();
    assert_eq!(next.slots(), [1, 2]);
    assert!(next.token().get() > token && first.is_valid() && last.is_valid());
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    for permit in [first, last, next] {
        permit.release().await.unwrap();
    }
    in_use(&client, "a", 0, 0).await;
}

async fn a_permit_whose_creation_was_not_answered_is_found_again() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=20s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    direct.semaphore("a", 2).acquire().await.unwrap().release().await.unwrap();
    proxy.cut(Direction::ServerToClient);
    let semaphore = client.semaphore("a", 2);
    let asking = tokio::spawn(async move { semaphore.acquire_many_within(2, secs(60)).await });
    // Its node is there; no answer has come, so it has no slots.
    in_use(&direct, "a", 0, 1).await;
    proxy.kill_connections();
    proxy.heal();
    let permit = asking.await.unwrap().unwrap();
    assert_eq!(permit.slots(), [0, 1]);
    in_use(&direct, "a", 2, 0).await;
    permit.release().await.unwrap();
    in_use(&direct, "a", 0, 0).await;
}

async fn a_waiter_for_a_permit_keeps_its_wait_over_the_end_of_its_session() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=6s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    let held = direct.semaphore("a", 1).acquire().await.unwrap();
    let semaphore = client.semaphore("a", 1);
    let waiter = tokio::spawn(async move { semaphore.acquire_within(secs(100)).await });
    in_use(&direct, "a", 1, 1).await;
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    in_use(&direct, "a", 1, 0).await;
    proxy.refuse_connections(false).unwrap();
    in_use(&direct, "a", 1, 1).await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    in_use(&direct, "a", 0, 0).await;
}

async fn a_grant_that_arrives_late_takes_no_slot_back() {
    let server = plain();
    let direct = connect(&server.url()).await;
    let semaphore = direct.semaphore("a", 3);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let proxy = RecordProxy::start(server.address()).await;
    let client = connect(&format!("zookeeper://{}?session=20s", proxy.address)).await;
    proxy.lose(Loss::Delayed);
    let other = client.semaphore("a", 3);
    let asking = tokio::spawn(async move { other.acquire_within(secs(60)).await });
    until("its grant is on its way", || async { proxy.has_lost() }).await.unwrap();
    // The second client sees both nodes, and gives both their slots. Its second permit has a later token.
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let second = semaphore.acquire().await.unwrap();
    proxy.deliver();
    let first = asking.await.unwrap().unwrap();
    let third = semaphore.acquire().await.unwrap();
    let mut held = [&first, &second, &third].map(|permit| (permit.slot(), permit.token()));
    held.sort_unstable();
    assert_eq!(held.map(|(slot, _)| slot), [0, 1, 2]);
    // The late record would lack the second permit, which would be granted again with an earlier token.
    let stored = direct.lock("a").status().await.unwrap().permits.unwrap().holders;
    let stored: Vec<_> = stored.iter().map(|one| (one.slots[0], one.token)).collect();
    assert_eq!(stored, held, "the record has other permits than the clients");
    for permit in [first, second, third] {
        permit.release().await.unwrap();
    }
}

/// The slot becomes free after the waiter has looked, and before it watches.
async fn a_waiter_does_not_rely_on_a_view_that_is_over() {
    let server = plain();
    let direct = connect(&server.url()).await;
    let held = direct.semaphore("a", 1).acquire().await.unwrap();
    let proxy = RecordProxy::start(server.address()).await;
    let mut raw = raw(&format!("zookeeper://{}?session=20s", proxy.address), 7).await;
    let request = waits(&mut raw).with_demand(Demand::new(1, 1).unwrap());
    proxy.delay(EXISTS, "/leasehold/a/semaphore");
    let asking = tokio::spawn({
        let (backend, request) = (raw.backend.clone(), request.clone());
        async move { backend.acquire(request).await }
    });
    until("it is about to watch", || async { proxy.has_lost() }).await.unwrap();
    held.release().await.unwrap();
    proxy.deliver();
    let answer = asking.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Permit { .. }), "it waits beside a free slot: {answer:?}");
    raw.backend.release(raw.end(&request).with_slot(None)).await.unwrap();
}

async fn a_first_waiter_is_woken_by_a_release_and_by_a_new_limit() {
    let server = plain();
    let semaphore = connect(&server.url()).await.semaphore("a", 1);
    let mut raw = raw(&server.url(), 7).await;
    for is_new_limit in [false, true] {
        let held = semaphore.acquire().await.unwrap();
        let request = waits(&mut raw).with_demand(Demand::new(1, 1).unwrap());
        let answer = raw.backend.acquire(request.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
        let held = match is_new_limit {
            true => {
                semaphore.set_limit(2).await.unwrap();
                Some(held)
            }
            false => {
                held.release().await.unwrap();
                None
            }
        };
        // The backend asks for nothing by itself.
        let woken = async {
            loop {
                match raw.events.recv().await.unwrap() {
                    Event::Next { attempt, .. } if attempt == request.attempt => return,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(secs(60), woken).await.expect("it is not woken");
        let answer = raw.backend.acquire(request.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Permit { .. }), "{answer:?}");
        raw.backend.release(raw.end(&request).with_slot(None)).await.unwrap();
        drop(held);
    }
}

async fn connections_that_break_give_no_slot_twice() {
    const LIMIT: u32 = 3;
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let direct = connect(&server.url()).await;
    let url = format!("zookeeper://{}?session=20s", proxy.address());
    // The last token of each slot.
    let slots = Arc::new(Mutex::new([0; LIMIT as usize]));
    let mut tasks = Vec::new();
    for number in 0..3 {
        let client = connect(&url).await;
        for task in 0..2 {
            let (semaphore, slots) = (client.semaphore("a", LIMIT), slots.clone());
            tasks.push(tokio::spawn(async move {
                for round in 0..8 {
                    let many = 1 + (number + task + round) % 3;
                    let permit = semaphore.acquire_many_within(many, secs(100)).await.unwrap();
                    let token = permit.token().get();
                    let mut marks = slots.lock().await;
                    if permit.is_valid() {
                        for slot in permit.slots() {
                            assert!(marks[*slot as usize] < token, "slot {slot}");
                            marks[*slot as usize] = token;
                        }
                    }
                    drop(marks);
                    tokio::time::sleep(crate::ms(20)).await;
                    // Without a loss no other client has got one of the slots meanwhile.
                    let marks = slots.lock().await;
                    let is_alone = permit.slots().iter().all(|slot| marks[*slot as usize] == token);
                    assert!(is_alone || !permit.is_valid(), "{:?} held twice", permit.slots());
                    drop(marks);
                    permit.release().await.ok();
                }
            }));
        }
    }
    while tasks.iter().any(|task| !task.is_finished()) {
        tokio::time::sleep(crate::ms(150)).await;
        proxy.kill_connections();
    }
    for task in tasks {
        task.await.unwrap();
    }
    in_use(&direct, "a", 0, 0).await;
}

async fn hundreds_of_permits_have_slots_of_their_own() {
    const LIMIT: u32 = 300;
    let server = plain();
    let url = server.url() + "?session=60s";
    let mut tasks = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect(&url).await);
    }
    for at in 0..LIMIT as usize {
        let semaphore = clients[at % clients.len()].semaphore("a", LIMIT);
        tasks.push(tokio::spawn(async move { semaphore.acquire_within(secs(100)).await }));
    }
    let (mut slots, mut tokens) = (BTreeSet::new(), BTreeSet::new());
    let mut permits = Vec::new();
    for task in tasks {
        let permit = task.await.unwrap().unwrap();
        assert!(slots.insert(permit.slot()) && tokens.insert(permit.token()), "given twice");
        permits.push(permit);
    }
    assert!(slots.into_iter().eq(0..LIMIT));
    assert!(clients[0].semaphore("a", LIMIT).try_acquire().await.unwrap().is_none());
    let status = clients[1].lock("a").status().await.unwrap();
    let shown = status.permits.unwrap();
    assert_eq!((status.state, shown.held, shown.holders.len()), (State::Permits, LIMIT, 100));
    drop(permits);
    in_use(&clients[0], "a", 0, 0).await;
}

async fn permits_that_are_tried_at_once_all_fit() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    for round in 0..10 {
        let name = format!("{round}");
        let tries: Vec<_> = (0..8)
            .map(|at| {
                let client = if at % 2 == 0 { &one } else { &two };
                let semaphore = client.semaphore(&name, 8);
                tokio::spawn(async move { semaphore.try_acquire().await })
            })
            .collect();
        let mut slots = BTreeSet::new();
        let mut permits = Vec::new();
        for tried in tries {
            let permit = tried.await.unwrap().unwrap().expect("as many slots as tries");
            slots.insert(permit.slot());
            permits.push(permit);
        }
        assert!(slots.into_iter().eq(0..8), "round {round}");
    }
}

async fn a_semaphore_and_a_lock_that_begin_at_once_never_share_a_name() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    for round in 0..40 {
        let name = format!("{round}");
        if round % 2 == 1 {
            one.lock(&name).acquire().await.unwrap().release().await.unwrap();
        }
        let (lock, semaphore) = (one.lock(&name), two.semaphore(&name, 1));
        let (locked, permit) = tokio::join!(lock.try_acquire(), semaphore.try_acquire());
        let is_locked = matches!(locked, Ok(Some(_)));
        assert!(!(is_locked && matches!(permit, Ok(Some(_)))), "both in round {round}");
    }
}

async fn waiters_of_a_semaphore_wake_one_another() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = one.semaphore("a", 3).acquire_many(3).await.unwrap();
    let mut waiters = Vec::new();
    for at in 0..6 {
        let semaphore = if at % 2 == 0 { &two } else { &one }.semaphore("a", 3);
        waiters.push(tokio::spawn(async move { semaphore.acquire_within(secs(100)).await }));
        in_use(&one, "a", 3, at + 1).await;
    }
    held.release().await.unwrap();
    // The first three get one slot each; each of them lets the next one in.
    let mut last = 0;
    for waiter in waiters {
        let permit = waiter.await.unwrap().unwrap();
        assert!(permit.token().get() > last, "not in order");
        last = permit.token().get();
        permit.release().await.unwrap();
    }
    in_use(&two, "a", 0, 0).await;
}
