//! Readers and writers whose processes, leases, connections and servers fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use leasehold_conformance::holder::Process;
use leasehold_conformance::until;
use leasehold_core::{Client, ErrorKind, Forced, LossReason, State, Upgraded};
use leasehold_etcd_api::PutOptions;
use leasehold_test_servers::{Direction, EtcdServer, Proxy};

use crate::members::leader;
use crate::{
    Test, cluster, connect, free, keys, ms, no_lease, operator, secs, server, test, url_of,
    waiting, watched,
};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_reader_lets_the_writer_in_when_its_lease_ends),
    test!(a_reader_that_is_cut_off_has_lost_before_a_writer_enters),
    test!(a_revoked_lease_ends_its_reader_and_the_phase_goes_on),
    test!(readers_keep_their_phase_over_a_restart_of_the_server),
    test!(readers_and_permits_last_when_the_leader_is_killed),
    test!(readers_that_enter_at_once_have_one_token),
    test!(a_lost_reply_to_a_reader_is_the_same_lease),
    test!(a_lost_reply_to_a_conversion_is_the_same_lease),
    test!(a_writer_behind_readers_is_told_of_without_a_renewal),
    test!(a_reader_behind_a_writer_is_woken_by_its_downgrade),
    test!(an_earlier_client_waits_behind_readers_and_they_behind_it),
    test!(an_operator_ends_all_readers_and_no_other),
    test!(a_value_that_is_no_record_is_refused_and_named),
    test!(the_last_reader_leaves_nothing_and_tokens_grow),
    test!(no_writer_beside_a_reader_while_connections_break),
];

/// So long that no renewal is due in a test.
const LONG: std::time::Duration = std::time::Duration::from_secs(3_600);

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

async fn through(server: &EtcdServer) -> (Proxy, Client) {
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let proxy = Proxy::opaque(address).unwrap();
    let client = connect(&format!("etcd://{}", proxy.address())).await;
    (proxy, client)
}

/// Redisson PR 7098 and PR 7251: the renewal of one reader prolonged the lease of another, dead one.
async fn a_killed_reader_lets_the_writer_in_when_its_lease_ends() {
    let server = server();
    let mut reader = Process::reading(&server.url(), "a", secs(2)).unwrap();
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
    let server = server();
    let (proxy, client) = through(&server).await;
    let direct = connect(&server.url()).await;
    let read = client.rw_lock("a").ttl(secs(4)).read().await.unwrap();
    let token = read.token();
    let valid = Arc::new(AtomicU64::new(0));
    let next = tokio::spawn({
        let (lock, valid) = (direct.rw_lock("a"), valid.clone());
        async move {
            let write = lock.write_within(secs(90)).await;
            valid.fetch_add(1, Ordering::SeqCst);
            write
        }
    });
    waiting(&direct, "a", 1).await;
    proxy.cut_all();
    assert_eq!(read.lost().await, LossReason::Expired);
    assert!(!read.is_valid());
    let write = next.await.unwrap().unwrap();
    assert!(write.token() > token);
    proxy.kill_connections();
    proxy.heal();
    assert_eq!(read.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(write.is_valid(), "the late release ended the writer");
    write.release().await.unwrap();
    client.rw_lock("a").read_within(secs(60)).await.unwrap().release().await.unwrap();
    free(&direct, "a").await;
}

async fn a_revoked_lease_ends_its_reader_and_the_phase_goes_on() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let first = one.rw_lock("a").ttl(LONG).read().await.unwrap();
    let second = two.rw_lock("a").ttl(LONG).read().await.unwrap();
    assert_eq!(first.token(), second.token());
    // The key of each reader, and the writers behind it.
    watched(&server, 4).await;
    let operator = operator(&server).await;
    let keys = keys(&operator).await;
    let own = keys.iter().filter(|kv| kv.lease != 0).min_by_key(|kv| kv.create_revision);
    operator.lease_revoke(own.unwrap().lease).await.unwrap();
    assert_eq!(first.lost().await, LossReason::NotOwner);
    assert!(second.is_valid());
    // The phase goes on with the other one.
    let third = one.rw_lock("a").ttl(LONG).read().await.unwrap();
    assert_eq!(third.token(), second.token());
    second.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(first.release().await.unwrap_err().kind(), ErrorKind::Lost);
    free(&one, "a").await;
}

async fn readers_keep_their_phase_over_a_restart_of_the_server() {
    let mut server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let first = one.rw_lock("a").ttl(secs(60)).read().await.unwrap();
    server.kill();
    server.start_again().unwrap();
    let second = two.rw_lock("a").ttl(secs(60)).read_within(secs(60)).await.unwrap();
    assert_eq!(first.token(), second.token(), "another phase");
    let third = connect(&server.url()).await;
    let next = tokio::spawn({
        let lock = third.rw_lock("a").ttl(secs(60));
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&two, "a", 1).await;
    let token = second.token();
    first.release().await.unwrap();
    second.release().await.unwrap();
    let write = next.await.unwrap().unwrap();
    assert!(write.token() > token);
    let token = write.token();
    let read = write.downgrade().await.unwrap();
    assert!(read.token() > token);
    read.release().await.unwrap();
    free(&third, "a").await;
}

async fn readers_and_permits_last_when_the_leader_is_killed() {
    let mut members = cluster();
    let url = url_of(&members);
    let (one, two, three) = (connect(&url).await, connect(&url).await, connect(&url).await);
    let first = one.rw_lock("a").ttl(secs(60)).read().await.unwrap();
    let permit = one.semaphore("b", 2).ttl(secs(60)).acquire().await.unwrap();
    let members = tokio::task::spawn_blocking(move || {
        let at = leader(&members, None);
        members[at].kill();
        leader(&members, None);
        members
    });
    let members = members.await.unwrap();
    let second = two.rw_lock("a").ttl(secs(60)).read_within(secs(90)).await.unwrap();
    assert_eq!(first.token(), second.token(), "another phase");
    let beside = two.semaphore("b", 2).ttl(secs(60)).acquire_within(secs(90)).await.unwrap();
    assert!(beside.slot() == 1 && beside.token() > permit.token());
    let next = tokio::spawn({
        let lock = three.rw_lock("a").ttl(secs(60));
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&two, "a", 1).await;
    assert!(first.is_valid() && permit.is_valid(), "lost with the leader");
    let token = second.token();
    first.release().await.unwrap();
    second.release().await.unwrap();
    let write = next.await.unwrap().unwrap();
    assert!(write.token() > token);
    let before = write.token();
    let read = write.downgrade().await.unwrap();
    assert!(read.token() > before);
    read.release().await.unwrap();
    permit.release().await.unwrap();
    beside.release().await.unwrap();
    free(&two, "a").await;
    drop(members);
}

async fn readers_that_enter_at_once_have_one_token() {
    let server = server();
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

async fn a_lost_reply_to_a_reader_is_the_same_lease() {
    let server = server();
    let direct = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    // The lease is there already, so that what is lost is the reply to the key.
    client.rw_lock("a").read().await.unwrap().release().await.unwrap();
    let held = direct.rw_lock("a").read().await.unwrap();
    proxy.cut(Direction::ServerToClient);
    let lock = client.rw_lock("a");
    let asking = tokio::spawn(async move { lock.read_within(secs(60)).await });
    let operator = operator(&server).await;
    until("the key is there", || async { keys(&operator).await.len() == 3 }).await.unwrap();
    proxy.kill_connections();
    proxy.heal();
    let read = asking.await.unwrap().unwrap();
    assert_eq!(read.token(), held.token(), "another phase");
    reading(&direct, "a", 2).await;
    read.release().await.unwrap();
    reading(&direct, "a", 1).await;
    held.release().await.unwrap();
    free(&direct, "a").await;
    assert!(keys(&operator).await.is_empty());
    operator.put("leasehold/junk", "", None).await.unwrap();
}

async fn a_lost_reply_to_a_conversion_is_the_same_lease() {
    let server = server();
    let direct = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    for round in 0..6_u64 {
        let write = client.rw_lock("a").ttl(secs(60)).write_within(secs(60)).await.unwrap();
        let before = write.token();
        // The later, the more of the requests of the conversion have an answer.
        let cut = |after: u64| {
            let proxy = &proxy;
            async move {
                tokio::time::sleep(std::time::Duration::from_micros(after)).await;
                proxy.cut(Direction::ServerToClient);
                tokio::time::sleep(ms(300)).await;
                proxy.kill_connections();
                proxy.heal();
            }
        };
        let (read, ()) = tokio::join!(write.downgrade(), cut(round * 400));
        let read = read.unwrap();
        assert!(read.token() > before);
        let status = direct.lock("a").status().await.unwrap();
        assert_eq!((status.state, status.token), (State::Shared, Some(read.token())));
        assert_eq!((status.readers.len(), status.waiters.unwrap().len()), (1, 0));
        let before = read.token();
        let (upgraded, ()) = tokio::join!(read.try_upgrade(), cut(round * 400));
        let Upgraded::Write(write) = upgraded.unwrap() else {
            panic!("the only reader was refused")
        };
        assert!(write.token() > before);
        let status = direct.lock("a").status().await.unwrap();
        assert_eq!((status.state, status.token), (State::Held, Some(write.token())));
        let before = write.token();
        write.release().await.ok();
        client.settle().await;
        free(&direct, "a").await;
        // Later holders are above the converted one.
        let next = direct.rw_lock("a").write().await.unwrap();
        assert!(next.token() > before);
        next.release().await.unwrap();
    }
}

async fn a_writer_behind_readers_is_told_of_without_a_renewal() {
    let server = server();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect(&server.url()).await);
    }
    let mut guards = Vec::new();
    for client in &clients[..2] {
        guards.push(client.rw_lock("a").ttl(LONG).read().await.unwrap());
    }
    let next = tokio::spawn({
        let lock = clients[2].rw_lock("a").ttl(LONG);
        async move { lock.write_within(secs(90)).await }
    });
    waiting(&clients[0], "a", 1).await;
    for client in &clients[..2] {
        let lock = client.rw_lock("a").ttl(LONG);
        until("the client knows that a writer waits", || async {
            lock.try_read().await.is_ok_and(|joined| joined.is_none())
        })
        .await
        .unwrap();
    }
    guards.remove(0).release().await.unwrap();
    reading(&clients[0], "a", 1).await;
    assert!(!next.is_finished(), "a writer beside a reader");
    guards.remove(0).release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    free(&clients[0], "a").await;
    // Nothing is watched any more.
    watched(&server, 0).await;
}

async fn a_reader_behind_a_writer_is_woken_by_its_downgrade() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    for _ in 0..10 {
        let write = one.rw_lock("a").ttl(LONG).write().await.unwrap();
        let behind = tokio::spawn({
            let lock = two.rw_lock("a").ttl(LONG);
            async move { lock.read_within(secs(90)).await }
        });
        waiting(&one, "a", 1).await;
        let read = write.downgrade().await.unwrap();
        let beside = behind.await.unwrap().unwrap();
        assert_eq!(beside.token(), read.token());
        beside.release().await.unwrap();
        read.release().await.unwrap();
    }
}

async fn an_earlier_client_waits_behind_readers_and_they_behind_it() {
    let server = server();
    let client = connect(&server.url()).await;
    let read = client.rw_lock("a").ttl(LONG).read().await.unwrap();
    // As a client does that knows no readers: a key of its attempt, and the last key before its own.
    let operator = operator(&server).await;
    let lease = operator.lease_grant(0, 60).await.unwrap().id;
    let own = "leasehold/a\t0123456789abcdef0123456789abcdef";
    let value = r#"{"host":"h","pid":1,"since":0}"#;
    let put = operator.put(own, value, Some(PutOptions::new().with_lease(lease)));
    let created = put.await.unwrap().header.unwrap().revision;
    let before = leasehold_etcd_api::GetOptions::new()
        .with_range("leasehold/a\n")
        .with_max_create_revision(created - 1)
        .with_keys_only();
    let before = operator.get("leasehold/a\t", Some(before)).await.unwrap();
    assert_eq!(before.kvs.len(), 1, "it does not wait");
    waiting(&client, "a", 1).await;
    let status = client.lock("a").status().await.unwrap();
    assert!(!status.waiters.unwrap()[0].shared);
    let lock = client.rw_lock("a").ttl(LONG);
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
    operator.delete(own).await.unwrap();
    let read = lock.read().await.unwrap();
    assert!(read.token() > held.token.unwrap());
    read.release().await.unwrap();
}

async fn an_operator_ends_all_readers_and_no_other() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let three = connect(&server.url()).await;
    let first = one.rw_lock("a").ttl(LONG).read().await.unwrap();
    let second = two.rw_lock("a").ttl(LONG).read().await.unwrap();
    watched(&server, 4).await;
    let next = tokio::spawn({
        let lock = three.rw_lock("a").ttl(LONG);
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

async fn a_value_that_is_no_record_is_refused_and_named() {
    let server = server();
    let client = connect(&server.url()).await;
    let operator = operator(&server).await;
    operator.put("leasehold/a\u{b}", "of a later version", None).await.unwrap();
    let error = client.rw_lock("a").read_within(secs(20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("leasehold/a"), "{error}");
    client.settle().await;
    until("no entry is left", || async { keys(&operator).await.len() == 1 }).await.unwrap();
}

async fn the_last_reader_leaves_nothing_and_tokens_grow() {
    let server = server();
    let client = connect(&server.url()).await;
    let operator = operator(&server).await;
    let lock = client.rw_lock("a");
    let mut last = 0;
    for _ in 0..3 {
        let write = lock.write().await.unwrap();
        let read = write.downgrade().await.unwrap();
        assert!(read.token().get() > last, "tokens went back with the record");
        last = read.token().get();
        read.release().await.unwrap();
        assert!(keys(&operator).await.is_empty());
        let read = lock.read().await.unwrap();
        assert!(read.token().get() > last, "tokens went back with the record");
        last = read.token().get();
        read.release().await.unwrap();
        assert!(keys(&operator).await.is_empty());
    }
    drop((lock, client));
    no_lease(&operator).await;
}

async fn no_writer_beside_a_reader_while_connections_break() {
    let server = server();
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let proxy = Proxy::opaque(address).unwrap();
    let url = format!("etcd://{}", proxy.address());
    let (sum, wrong) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let highest = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..6_u64 {
        let client = connect(&url).await;
        let (sum, wrong, highest) = (sum.clone(), wrong.clone(), highest.clone());
        tasks.push(tokio::spawn(async move {
            let lock = client.rw_lock("a").ttl(secs(60));
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
            for round in 0..30 {
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
            client.settle().await;
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
