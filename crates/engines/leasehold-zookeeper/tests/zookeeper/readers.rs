//! Readers and writers whose processes, sessions, connections and servers fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use leasehold_conformance::holder::Process;
use leasehold_conformance::until;
use leasehold_core::backend::{Answer, Event, Mode};
use leasehold_core::{Client, ErrorKind, Forced, LossReason, State, Upgraded};
use leasehold_test_servers::{Proxy, ZooKeeperEnsemble, ZooKeeperServer, ZooKeeperSettings};
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode};

use crate::record_proxy::{Loss, RecordProxy};
use crate::{Test, connect, free, ms, plain, raw, secs, test, waiting, waits};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_reader_lets_the_writer_in_when_its_session_ends),
    test!(a_reader_that_is_cut_off_has_lost_before_a_writer_enters),
    test!(a_session_that_an_operator_ends_ends_its_readers),
    test!(readers_keep_their_phase_over_a_restart_of_the_server),
    test!(readers_keep_their_phase_when_the_leader_is_killed),
    test!(readers_that_enter_at_once_have_one_token),
    test!(a_registration_without_an_answer_gives_one_lease_and_one_token),
    test!(a_conversion_without_an_answer_gives_one_lease_and_one_token),
    test!(an_upgrade_that_was_lost_is_refused_beside_a_reader),
    test!(readers_that_leave_wake_no_other_and_a_writer_is_told),
    test!(a_grant_says_whether_others_wait),
    test!(an_earlier_client_waits_behind_readers_and_they_behind_it),
    test!(an_operator_ends_all_readers_and_no_other),
    test!(data_that_is_no_record_is_refused_and_named),
    test!(tokens_grow_when_the_nodes_of_a_lock_are_removed),
    test!(no_writer_beside_a_reader_while_connections_break),
];

/// Waits until this many clients read.
async fn reading(client: &Client, name: &str, count: usize) {
    until("they read", || async {
        let status = client.lock(name).status().await;
        status.is_ok_and(|status| {
            status.readers.len() == count && (status.state == State::Shared || count == 0)
        })
    })
    .await
    .unwrap();
}

/// Redisson PR 7098 and PR 7251: the renewal of one reader prolonged the lease of another, dead one.
async fn a_killed_reader_lets_the_writer_in_when_its_session_ends() {
    let server = plain();
    let mut reader = Process::reading(&(server.url() + "?session=6s"), "a", secs(2)).unwrap();
    let client = connect(&server.url()).await;
    let beside = client.rw_lock("a").read().await.unwrap();
    assert_eq!(beside.token().get(), reader.token, "another phase");
    reading(&client, "a", 2).await;
    let writer = connect(&server.url()).await;
    let next = tokio::spawn({
        let lock = writer.rw_lock("a");
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&client, "a", 1).await;
    reader.kill();
    reading(&client, "a", 1).await;
    assert!(!next.is_finished() && beside.is_valid(), "the other reader was ended");
    beside.release().await.unwrap();
    let write = next.await.unwrap().unwrap();
    assert!(write.token().get() > reader.token);
    write.release().await.unwrap();
    free(&client, "a").await;
}

async fn a_reader_that_is_cut_off_has_lost_before_a_writer_enters() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=10s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    let read = client.rw_lock("a").read().await.unwrap();
    let next = tokio::spawn({
        let lock = direct.rw_lock("a");
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&direct, "a", 1).await;
    proxy.cut_all();
    assert_eq!(read.lost().await, LossReason::Expired);
    assert!(!read.is_valid());
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Shared, Some(read.token())), "told too late");
    assert!(!next.is_finished(), "the writer got in before");
    let write = next.await.unwrap().unwrap();
    assert!(write.token() > read.token());
    proxy.kill_connections();
    proxy.heal();
    assert_eq!(read.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(write.is_valid(), "the late release ended the writer");
    write.release().await.unwrap();
    client.rw_lock("a").read_within(secs(60)).await.unwrap().release().await.unwrap();
    free(&direct, "a").await;
}

async fn a_session_that_an_operator_ends_ends_its_readers() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let (first, second) =
        (one.rw_lock("a").read().await.unwrap(), two.rw_lock("a").read().await.unwrap());
    assert_eq!(first.token(), second.token());
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let nodes = other.list_children("/leasehold/a").await.unwrap();
    assert_eq!(nodes.len(), 2);
    // As the server does at the end of a session.
    let own = nodes.iter().min_by_key(|node| node.rsplit_once('-').unwrap().1.to_owned()).unwrap();
    other.delete(&format!("/leasehold/a/{own}"), None).await.unwrap();
    assert_eq!(first.lost().await, LossReason::NotOwner);
    assert!(second.is_valid());
    // The phase goes on with the other one.
    let third = one.rw_lock("a").read().await.unwrap();
    assert_eq!(third.token(), second.token());
    second.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(first.release().await.unwrap_err().kind(), ErrorKind::Lost);
    free(&one, "a").await;
}

async fn readers_keep_their_phase_over_a_restart_of_the_server() {
    let mut server = plain();
    let url = server.url() + "?session=40s";
    let (one, two) = (connect(&url).await, connect(&url).await);
    let first = one.rw_lock("a").read().await.unwrap();
    server.kill();
    server.start_again().unwrap();
    let second = two.rw_lock("a").read_within(secs(60)).await.unwrap();
    assert!(!first.is_valid() || first.token() == second.token(), "another phase");
    assert!(second.token() >= first.token());
    let third = connect(&url).await;
    let next = tokio::spawn({
        let lock = third.rw_lock("a");
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&two, "a", 1).await;
    let token = second.token();
    first.release().await.ok();
    second.release().await.ok();
    let write = next.await.unwrap().unwrap();
    assert!(write.token() > token);
    let read = write.downgrade().await.unwrap();
    assert!(read.token() > token);
    read.release().await.unwrap();
    free(&third, "a").await;
}

async fn readers_keep_their_phase_when_the_leader_is_killed() {
    let mut ensemble = ZooKeeperEnsemble::start(3, &ZooKeeperSettings::new()).unwrap();
    let url = ensemble.url() + "?session=40s";
    let (one, two, three) = (connect(&url).await, connect(&url).await, connect(&url).await);
    let first = one.rw_lock("a").read().await.unwrap();
    let leader = ensemble.leader().unwrap();
    ensemble.servers[leader].kill();
    ensemble.leader().unwrap();
    let second = two.rw_lock("a").read_within(secs(90)).await.unwrap();
    assert!(!first.is_valid() || first.token() == second.token(), "another phase");
    assert!(second.token() >= first.token());
    let next = tokio::spawn({
        let lock = three.rw_lock("a");
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&two, "a", 1).await;
    let token = second.token();
    first.release().await.ok();
    second.release().await.ok();
    let write = next.await.unwrap().unwrap();
    assert!(write.token() > token && write.token().get() >> 32 > token.get() >> 32);
    write.release().await.ok();
    ensemble.servers[leader].start_again().unwrap();
    free(&two, "a").await;
}

async fn readers_that_enter_at_once_have_one_token() {
    let server = plain();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(connect(&server.url()).await);
    }
    let mut last = 0;
    for round in 0..20 {
        let readers = clients.iter().map(|client| {
            let lock = client.rw_lock("a");
            tokio::spawn(async move { lock.read_within(secs(90)).await })
        });
        let readers: Vec<_> = readers.collect();
        let mut guards = Vec::new();
        for reader in readers {
            guards.push(reader.await.unwrap().unwrap());
        }
        let token = guards[0].token().get();
        let tokens: Vec<_> = guards.iter().map(|guard| guard.token().get()).collect();
        assert!(token > last && tokens == [token; 8], "{tokens:?} after {last} in round {round}");
        last = token;
        for guard in guards {
            guard.release().await.unwrap();
        }
    }
}

/// A server, a client behind a proxy that loses requests, and one that sees it directly.
async fn lossy() -> (ZooKeeperServer, RecordProxy, Client, Client) {
    let server = plain();
    let proxy = RecordProxy::start(server.address()).await;
    let client = connect(&format!("zookeeper://{}?session=40s", proxy.address)).await;
    let direct = connect(&server.url()).await;
    (server, proxy, client, direct)
}

async fn a_registration_without_an_answer_gives_one_lease_and_one_token() {
    let (_server, proxy, client, direct) = lossy().await;
    for loss in [Loss::Answer, Loss::Request] {
        proxy.lose(loss);
        let read = client.rw_lock("a").read_within(secs(60)).await.unwrap();
        assert!(proxy.has_lost(), "nothing was registered");
        let status = direct.lock("a").status().await.unwrap();
        assert_eq!((status.state, status.token), (State::Shared, Some(read.token())));
        assert_eq!((status.readers.len(), status.waiters.unwrap().len()), (1, 0), "{loss:?}");
        let beside = direct.rw_lock("a").read().await.unwrap();
        assert_eq!(beside.token(), read.token(), "{loss:?}");
        read.release().await.unwrap();
        beside.release().await.unwrap();
        free(&direct, "a").await;
    }
}

async fn a_conversion_without_an_answer_gives_one_lease_and_one_token() {
    let (_server, proxy, client, direct) = lossy().await;
    for loss in [Loss::Answer, Loss::Request] {
        let write = client.rw_lock("a").write().await.unwrap();
        let before = write.token();
        proxy.lose(loss);
        let read = write.downgrade().await.unwrap();
        assert!(proxy.has_lost() && read.token() > before, "{loss:?}");
        let status = direct.lock("a").status().await.unwrap();
        assert_eq!((status.state, status.token), (State::Shared, Some(read.token())));
        assert_eq!((status.readers.len(), status.waiters.unwrap().len()), (1, 0), "{loss:?}");
        let before = read.token();
        proxy.lose(loss);
        let Upgraded::Write(write) = read.try_upgrade().await.unwrap() else {
            panic!("the only reader was refused: {loss:?}");
        };
        assert!(proxy.has_lost() && write.token() > before, "{loss:?}");
        let status = direct.lock("a").status().await.unwrap();
        assert_eq!((status.state, status.token), (State::Held, Some(write.token())));
        assert!(write.is_valid());
        write.release().await.unwrap();
        free(&direct, "a").await;
        // Later holders are above the converted one.
        let next = direct.rw_lock("a").write().await.unwrap();
        assert!(next.token() > status.token.unwrap());
        next.release().await.unwrap();
    }
}

async fn an_upgrade_that_was_lost_is_refused_beside_a_reader() {
    let (_server, proxy, client, direct) = lossy().await;
    let read = client.rw_lock("a").read().await.unwrap();
    let token = read.token();
    proxy.lose(Loss::Request);
    let upgrading = tokio::spawn(read.try_upgrade());
    until("the request is lost", || async { proxy.has_lost() }).await.unwrap();
    let beside = direct.rw_lock("a").read_within(secs(60)).await;
    match (upgrading.await.unwrap().unwrap(), beside) {
        (Upgraded::Refused(read), Ok(beside)) => {
            assert!(read.is_valid() && beside.is_valid());
            assert_eq!((read.token(), beside.token()), (token, token));
            reading(&direct, "a", 2).await;
            read.release().await.unwrap();
            beside.release().await.unwrap();
        }
        // It was repeated before the other one came.
        (Upgraded::Write(write), beside) => {
            assert!(beside.is_err(), "a reader beside the writer");
            write.release().await.unwrap();
        }
        (_, beside) => panic!("{:?}", beside.err()),
    }
    free(&direct, "a").await;
}

async fn readers_that_leave_wake_no_other_and_a_writer_is_told() {
    let server = plain();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&server.url()).await);
    }
    let mut guards = Vec::new();
    for client in &clients[..3] {
        guards.push(client.rw_lock("a").read().await.unwrap());
    }
    let next = tokio::spawn({
        let lock = clients[3].rw_lock("a");
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&clients[0], "a", 1).await;
    // Tasks of the reading clients join no more, long before a renewal tells that.
    for client in &clients[..3] {
        let lock = client.rw_lock("a");
        until("the client knows that a writer waits", || async {
            lock.try_read().await.is_ok_and(|joined| joined.is_none())
        })
        .await
        .unwrap();
    }
    // The writer watches the last reader alone; each reader that waits watches the writer.
    let behind = tokio::spawn({
        let lock = clients[0].rw_lock("a");
        async move { lock.read_within(secs(90)).await }
    });
    waiting(&clients[0], "a", 2).await;
    let fired = || server.number("zk_sum_node_deleted_watch_count").unwrap() as u64;
    let before = fired();
    guards.remove(0).release().await.unwrap();
    guards.remove(0).release().await.unwrap();
    reading(&clients[0], "a", 1).await;
    assert_eq!(fired(), before, "a reader that left woke another client");
    guards.remove(0).release().await.unwrap();
    let write = next.await.unwrap().unwrap();
    assert_eq!(fired(), before + 1);
    assert!(!behind.is_finished());
    write.release().await.unwrap();
    behind.await.unwrap().unwrap().release().await.unwrap();
    free(&clients[0], "a").await;
}

async fn a_grant_says_whether_others_wait() {
    let server = plain();
    let (mut one, mut two) = (raw(&server.url(), 1).await, raw(&server.url(), 2).await);
    let first = waits(&mut one);
    let Answer::Granted(grant) = one.backend.acquire(first.clone()).await.unwrap() else {
        panic!()
    };
    assert!(!grant.wanted, "no other waits");
    // A writer with a reader behind it, the reader with a writer behind it, and the last one alone.
    let all = [Mode::Exclusive, Mode::Shared, Mode::Exclusive]
        .map(|mode| waits(&mut two).with_mode(mode));
    for request in &all {
        let answer = two.backend.acquire(request.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
    }
    one.backend.release(one.end(&first)).await.unwrap();
    for (request, is_wanted) in all.iter().zip([true, true, false]) {
        loop {
            match two.events.recv().await.unwrap() {
                Event::Next { attempt, .. } if attempt == request.attempt => break,
                _ => {}
            }
        }
        let answer = two.backend.acquire(request.clone()).await.unwrap();
        let Answer::Granted(grant) = answer else { panic!("{answer:?}") };
        assert_eq!(grant.wanted, is_wanted, "{:?}", request.mode);
        two.backend.release(two.end(request)).await.unwrap();
    }
}

async fn an_earlier_client_waits_behind_readers_and_they_behind_it() {
    let server = plain();
    let client = connect(&server.url()).await;
    let read = client.rw_lock("a").read().await.unwrap();
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    // As a client does that knows no readers: a node like that of a mutex, and a list that it sorts by the
    // numbers behind the mark.
    let path = "/leasehold/a/_c_01234567-89ab-cdef-0123-456789abcdef-lock-";
    let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, number) = other.create(path, b"", &mode).await.unwrap();
    let number = number.to_string();
    let mut nodes = other.list_children("/leasehold/a").await.unwrap();
    nodes.sort_by_key(|node| node.rsplit_once("lock-").unwrap().1.to_owned());
    assert!(nodes.len() == 2 && nodes[1].ends_with(&number), "it does not wait: {nodes:?}");
    waiting(&client, "a", 1).await;
    let status = client.lock("a").status().await.unwrap();
    assert!(!status.waiters.unwrap()[0].shared);
    let lock = client.rw_lock("a");
    until("no reader joins", || async {
        lock.try_read().await.is_ok_and(|joined| joined.is_none())
    })
    .await
    .unwrap();
    let token = read.token();
    read.release().await.unwrap();
    assert!(lock.try_read().await.unwrap().is_none(), "a reader beside an earlier client");
    let held = client.lock("a").status().await.unwrap();
    assert!(held.state == State::Held && held.token.unwrap() > token);
    other.delete(&format!("{path}{number}"), None).await.unwrap();
    let read = lock.read().await.unwrap();
    assert!(read.token() > held.token.unwrap());
    read.release().await.unwrap();
}

async fn an_operator_ends_all_readers_and_no_other() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let three = connect(&server.url()).await;
    let (first, second) =
        (one.rw_lock("a").read().await.unwrap(), two.rw_lock("a").read().await.unwrap());
    let next = tokio::spawn({
        let lock = three.rw_lock("a");
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&one, "a", 1).await;
    let listed = one.list("", 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, State::Shared));
    assert_eq!((listed[0].readers.len(), listed[0].token), (2, Some(first.token())));
    let lock = one.lock("a");
    let other = leasehold_core::Token::new(first.token().get() + 1).unwrap();
    assert_eq!(lock.force_release(other).await.unwrap(), Forced::Other(first.token()));
    assert!(first.is_valid() && second.is_valid());
    assert_eq!(lock.force_release(first.token()).await.unwrap(), Forced::Ended);
    let write = next.await.unwrap().unwrap();
    assert!(write.token() > first.token());
    assert_eq!(lock.force_release(first.token()).await.unwrap(), Forced::Other(write.token()));
    assert_eq!(first.lost().await, LossReason::NotOwner);
    assert_eq!(second.lost().await, LossReason::NotOwner);
    // A converted lease is named by its own token.
    let read = write.downgrade().await.unwrap();
    assert_eq!(lock.force_release(read.token()).await.unwrap(), Forced::Ended);
    assert_eq!(lock.force_release(read.token()).await.unwrap(), Forced::NotHeld);
    free(&one, "a").await;
}

async fn data_that_is_no_record_is_refused_and_named() {
    let server = plain();
    let client = connect(&server.url()).await;
    client.rw_lock("a").read().await.unwrap().release().await.unwrap();
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    other.set_data("/leasehold/a", b"of a later version", None).await.unwrap();
    let error = client.rw_lock("a").read_within(secs(20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("/leasehold/a"), "{error}");
    client.settle().await;
    assert!(other.list_children("/leasehold/a").await.unwrap().is_empty(), "left behind");
    // Data that was there before the first record is ignored.
    let lasting = CreateMode::Container.with_acls(Acls::anyone_all());
    other.create("/leasehold/b", b"10.0.0.7", &lasting).await.unwrap();
    client.rw_lock("b").read().await.unwrap().release().await.unwrap();
}

async fn tokens_grow_when_the_nodes_of_a_lock_are_removed() {
    let settings = ZooKeeperSettings::new().containers_every_ms(50);
    let server = ZooKeeperServer::start(settings).unwrap();
    let client = connect(&server.url()).await;
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let lock = client.rw_lock("a");
    let mut last = 0;
    for _ in 0..3 {
        let write = lock.write().await.unwrap();
        let read = write.downgrade().await.unwrap();
        assert!(read.token().get() > last, "tokens went back with the record");
        last = read.token().get();
        read.release().await.unwrap();
        until("the server has removed the container", || async {
            other.check_stat("/leasehold/a").await.unwrap().is_none()
        })
        .await
        .unwrap();
        let read = lock.read().await.unwrap();
        assert!(read.token().get() > last, "tokens went back with the record");
        last = read.token().get();
        read.release().await.unwrap();
    }
}

async fn no_writer_beside_a_reader_while_connections_break() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let url = format!("zookeeper://{}?session=40s", proxy.address());
    let (sum, wrong) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let highest = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..6_u64 {
        let client = connect(&url).await;
        let (sum, wrong, highest) = (sum.clone(), wrong.clone(), highest.clone());
        tasks.push(tokio::spawn(async move {
            let lock = client.rw_lock("a");
            // A writer takes far more than all readers give; its token is above all earlier ones.
            let writes = |token: u64| {
                let beside = sum.fetch_sub(1_000, Ordering::SeqCst) != 0;
                let low = highest.fetch_max(token, Ordering::SeqCst) >= token;
                wrong.fetch_add(u64::from(beside || low), Ordering::SeqCst);
            };
            let reads = |token: u64| {
                let beside = sum.fetch_add(1, Ordering::SeqCst) < 0;
                let low = highest.fetch_max(token, Ordering::SeqCst) > token;
                wrong.fetch_add(u64::from(beside || low), Ordering::SeqCst);
            };
            for round in 0..40 {
                match (number + round) % 4 {
                    0 => {
                        let write = lock.write_within(secs(100)).await?;
                        writes(write.token().get());
                        tokio::task::yield_now().await;
                        sum.fetch_add(1_000, Ordering::SeqCst);
                        let Ok(read) = write.downgrade().await else { continue };
                        reads(read.token().get());
                        tokio::time::sleep(ms(2)).await;
                        sum.fetch_sub(1, Ordering::SeqCst);
                        read.release().await.ok();
                    }
                    1 => {
                        let read = lock.read_within(secs(100)).await?;
                        reads(read.token().get());
                        sum.fetch_sub(1, Ordering::SeqCst);
                        match read.try_upgrade().await {
                            Ok(Upgraded::Write(write)) => {
                                writes(write.token().get());
                                tokio::task::yield_now().await;
                                sum.fetch_add(1_000, Ordering::SeqCst);
                                write.release().await.ok();
                            }
                            Ok(Upgraded::Refused(read)) => drop(read.release().await),
                            _ => {}
                        }
                    }
                    _ => {
                        let read = lock.read_within(secs(100)).await?;
                        reads(read.token().get());
                        tokio::time::sleep(ms(2)).await;
                        sum.fetch_sub(1, Ordering::SeqCst);
                        read.release().await.ok();
                    }
                }
            }
            Ok::<_, leasehold_core::Error>(())
        }));
    }
    while tasks.iter().any(|task| !task.is_finished()) {
        tokio::time::sleep(ms(300)).await;
        proxy.kill_connections();
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(wrong.load(Ordering::SeqCst), 0, "a writer beside a reader, or a token too low");
    let direct = connect(&server.url()).await;
    free(&direct, "a").await;
}
