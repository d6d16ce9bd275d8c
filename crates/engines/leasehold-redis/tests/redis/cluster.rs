//! A real cluster of six nodes: slots that move under load, a master that crashes, and possible
//! faults.

use leasehold_conformance::{says, until};
use leasehold_core::backend::Answer;
use leasehold_core::{ErrorKind, Guard, State};
use leasehold_test_servers::{Certificates, RedisCluster, RedisServer, RedisSettings, wait};
use tokio::sync::mpsc;

use crate::crowd::Crowd;
use crate::side::Side;
use crate::{Test, connect, everything_works, ms, plain, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(a_slot_that_moves_to_and_fro_under_load_loses_nothing),
    test!(a_lock_and_its_line_survive_being_moved_apart),
    test!(readers_and_writers_survive_the_move_of_their_slot),
    test!(an_unfinished_move_keeps_free_locks_usable),
    test!(a_killed_master_is_replaced_and_nobody_hangs),
    test!(a_stopped_master_keeps_no_other_lock_from_being_renewed),
    test!(what_is_wrong_with_a_cluster_is_said),
    test!(a_password_and_tls_on_all_nodes),
    test!(a_lock_at_a_node_that_nobody_listens_at_goes_to_one_alone),
    test!(a_master_without_slots_is_listened_at),
    test!(pushes_are_heard_once),
];

fn six() -> RedisCluster {
    RedisCluster::start(RedisSettings::new()).unwrap()
}

/// Returns the master that has a slot at the start.
fn owner(slot: u16) -> usize {
    (0..3).find(|master| RedisCluster::range(*master).contains(&usize::from(slot))).unwrap()
}

async fn a_slot_that_moves_to_and_fro_under_load_loses_nothing() {
    // A node that a busy machine delays must not fail over meanwhile.
    let cluster = RedisCluster::start(RedisSettings::new().patient()).unwrap();
    let slot = cluster.slot("leasehold:{a}").unwrap();
    let (home, away) = (owner(slot), (owner(slot) + 1) % 3);
    let crowd = Crowd::start(&cluster.url(), 15, &["a".to_owned()]).await;
    crowd.progress(100).await;
    let mut moves = 0;
    for _ in 0..10 {
        for (from, to) in [(home, away), (away, home)] {
            // Like an operator, this does not replace an existing key.
            cluster.begin(slot, from, to).unwrap();
            crowd.progress(1).await;
            cluster.finish(slot, from, to).unwrap();
            moves += 1;
            crowd.progress(5).await;
        }
    }
    let seen = crowd.stop().await;
    println!("cluster, a slot moved {moves} times under 15 clients: {seen:?}");
    assert_eq!((seen.overlaps, seen.fallen), (0, 0), "{seen:?}");
    assert!(seen.errors.is_empty(), "{seen:?}");
    let status = connect(&cluster.url()).await.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.waiters.unwrap().len()), (State::Free, 0));
}

async fn a_lock_and_its_line_survive_being_moved_apart() {
    let cluster = six();
    let slot = cluster.slot("leasehold:{a}").unwrap();
    let (from, to) = (owner(slot), (owner(slot) + 1) % 3);
    for first in ["leasehold:{a}", "leasehold:{a}:q"] {
        let (one, two) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
        let held = one.lock("a").ttl(secs(60)).acquire().await.unwrap();
        let token = held.token();
        let waiting = tokio::spawn({
            let lock = two.lock("a").ttl(secs(60));
            async move { lock.acquire_within(secs(60)).await }
        });
        until("it stands in line", || async {
            one.lock("a").status().await.unwrap().waiters.unwrap().len() == 1
        })
        .await
        .unwrap();
        let slot_now =
            cluster.nodes[from].admin(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
        let (from, to) =
            if slot_now.unwrap().integer() > Some(0) { (from, to) } else { (to, from) };
        cluster.begin(slot, from, to).unwrap();
        cluster.move_key(first, from, to).unwrap();
        let releasing = tokio::spawn(held.release());
        // No side may treat the queue as empty while it is on another node than its record.
        tokio::time::sleep(ms(300)).await;
        assert!(!waiting.is_finished() && !releasing.is_finished());
        cluster.finish(slot, from, to).unwrap();
        releasing.await.unwrap().unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
    }
}

async fn readers_and_writers_survive_the_move_of_their_slot() {
    let cluster = six();
    let slot = cluster.slot("leasehold:{a}").unwrap();
    let (home, away) = (owner(slot), (owner(slot) + 1) % 3);
    let (one, two) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    let three = connect(&cluster.url()).await;
    for (first, from, to) in [
        ("leasehold:{a}", home, away),
        ("leasehold:{a}:q", away, home),
        ("leasehold:{a}:m", home, away),
    ] {
        let lock = one.rw_lock("a").ttl(secs(60));
        let read = lock.read().await.unwrap();
        let token = read.token();
        let writing = tokio::spawn({
            let lock = two.rw_lock("a").ttl(secs(60));
            async move { lock.write_within(secs(60)).await }
        });
        let waits = |many: usize| {
            let lock = lock.clone();
            async move {
                until("it stands in line", || async {
                    lock.status().await.unwrap().waiters.unwrap().len() == many
                })
                .await
                .unwrap();
            }
        };
        waits(1).await;
        let late = tokio::spawn({
            let lock = three.rw_lock("a").ttl(secs(60));
            async move { lock.read_within(secs(60)).await }
        });
        waits(2).await;
        cluster.begin(slot, from, to).unwrap();
        cluster.move_key(first, from, to).unwrap();
        let releasing = tokio::spawn(read.release());
        // No side may treat the lock as free while its keys are on two nodes.
        tokio::time::sleep(ms(300)).await;
        assert!(!writing.is_finished() && !late.is_finished() && !releasing.is_finished());
        cluster.finish(slot, from, to).unwrap();
        releasing.await.unwrap().unwrap();
        let write = writing.await.unwrap().unwrap();
        assert!(write.token() > token && !late.is_finished());
        let before = write.token();
        write.release().await.unwrap();
        let read = late.await.unwrap().unwrap();
        assert!(read.token() > before);
        read.release().await.unwrap();
    }
}

async fn an_unfinished_move_keeps_free_locks_usable() {
    let cluster = six();
    let slot = cluster.slot("leasehold:{a}").unwrap();
    let (from, to) = (owner(slot), (owner(slot) + 1) % 3);
    let client = connect(&cluster.url()).await;
    let before = client.lock("a").acquire().await.unwrap();
    let first = before.token();
    before.release().await.unwrap();
    cluster.begin(slot, from, to).unwrap();
    // At the old node, at the new node, and at a node without the key.
    let second = client.lock("a").ttl(secs(2)).acquire().await.unwrap();
    cluster.move_key("leasehold:{a}", from, to).unwrap();
    let deadline = second.deadline();
    until("it is renewed", || async { second.deadline() != deadline }).await.unwrap();
    let token = second.token();
    assert!(token > first);
    second.release().await.unwrap();
    cluster.nodes[to].admin(&["DEL", "leasehold:{a}"]).ok();
    let third = client.lock("a").acquire().await.unwrap();
    assert!(third.token() > token, "the clock is the floor");
    third.release().await.unwrap();
    cluster.finish(slot, from, to).unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_killed_master_is_replaced_and_nobody_hangs() {
    let mut cluster = six();
    let names: Vec<String> = (0..10).map(|number| format!("lock {number}")).collect();
    let there = |name: &String| owner(cluster.slot(&format!("leasehold:{{{name}}}")).unwrap());
    assert!((0..3).all(|master| names.iter().any(|name| there(name) == master)));
    let crowd = Crowd::start(&cluster.url(), 30, &names).await;
    crowd.progress(20).await;
    crowd.stay().await;
    cluster.nodes[0].kill();
    cluster.promoted(0).unwrap();
    crowd.leave();
    crowd.progress(20).await;
    // It restarts as a replica: it kept its data and its place in the cluster.
    cluster.nodes[0].start_again().unwrap();
    cluster.settled().unwrap();
    crowd.progress(20).await;
    let seen = crowd.stop().await;
    println!("cluster, one of three masters killed under 30 clients: {seen:?}");
    // One grant of each lock of that master may be lost.
    assert!(seen.overlaps <= names.len() as u64, "{seen:?}");
    assert_eq!(seen.fallen, 0, "{seen:?}");
}

async fn a_stopped_master_keeps_no_other_lock_from_being_renewed() {
    let cluster = six();
    let client = connect(&cluster.url()).await;
    let mut held = Vec::new();
    for number in 0..12 {
        let name = format!("lock {number}");
        let slot = cluster.slot(&format!("leasehold:{{{name}}}")).unwrap();
        held.push((owner(slot), client.lock(&name).ttl(secs(6)).acquire().await.unwrap()));
    }
    let there = held.iter().filter(|(owner, _)| *owner == 1).count();
    assert!((1..held.len()).contains(&there), "locks at all masters");
    cluster.nodes[1].stop().unwrap();
    for _ in 0..3 {
        let before: Vec<_> = held.iter().map(|(_, guard)| guard.deadline()).collect();
        let renewed = || async {
            let mut each = held.iter().zip(&before).filter(|((owner, _), _)| *owner != 1);
            each.all(|((_, guard), before)| guard.deadline() != *before)
        };
        until("the others are renewed", renewed).await.unwrap();
    }
    assert!(held.iter().filter(|(owner, _)| *owner != 1).all(|(_, guard)| guard.is_valid()));
    cluster.promoted(1).unwrap();
    cluster.nodes[1].resume().unwrap();
    for (owner, guard) in held {
        let released = guard.release().await;
        assert!(owner == 1 || released.is_ok(), "{released:?}");
    }
}

async fn what_is_wrong_with_a_cluster_is_said() {
    let server = plain();
    let error = try_connect(&format!("redis+cluster://{}", server.address())).await.unwrap_err();
    says(&error, ErrorKind::Unsupported, &["not in cluster mode", "redis://"]);
    let alone = RedisServer::start(RedisSettings::new().cluster()).unwrap();
    let url = format!("redis+cluster://{}", alone.address());
    alone.admin(&["CLUSTER", "ADDSLOTSRANGE", "0", "9999"]).unwrap();
    let error = try_connect(&url).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["6384 of its 16384 slots", "slot 10000"]);
    let error = try_connect(&format!("{url}/3")).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["database"]);
    let error = try_connect(&format!("{url}?db=3")).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["database"]);
    let port = alone.port();
    drop(alone);
    let error = try_connect(&format!("redis+cluster://127.0.0.1:{port}")).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["is the server running?"]);
    let mut cluster = RedisCluster::start(RedisSettings::new()).unwrap();
    // One node that answers is enough, even a replica.
    cluster.nodes[0].kill();
    cluster.promoted(0).unwrap();
    cluster.settled().unwrap();
    let seeds = [&cluster.nodes[0], &cluster.nodes[5]].map(|node| node.address().to_string());
    everything_works(&format!("redis+cluster://{}", seeds.join(","))).await;
}

async fn a_password_and_tls_on_all_nodes() {
    let certificates = Certificates::make().unwrap();
    let settings = RedisSettings::new().tls(&certificates).tls_between();
    let rights = format!("{} +cluster|nodes", crate::RIGHTS);
    let settings = settings.user("app", &rights).line("user default off");
    let cluster = RedisCluster::start(settings).unwrap();
    let url = |password: &str| {
        format!(
            "rediss+cluster://app:{password}@{}?tls-ca={}&tls-cert={}&tls-key={}",
            cluster.place(),
            certificates.authority().display(),
            certificates.client().display(),
            certificates.client_key().display()
        )
    };
    everything_works(&url("s3cret")).await;
    let error = try_connect(&url("wr0ng")).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["wrong user or password"]);
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
}

async fn pushes_are_heard_once() {
    let cluster = six();
    let mut sides = [Side::connect(&cluster.url()).await, Side::connect(&cluster.url()).await];
    let (first, second) = (sides[0].request(secs(60)), sides[1].request(secs(60)));
    let grant = sides[0].granted(&first).await;
    // One for each master with a subscription.
    for _ in 0..3 {
        assert!(matches!(sides[1].next_event().await, leasehold_core::backend::Event::Reset));
    }
    assert!(matches!(sides[1].acquire(&second).await, Answer::Queued { .. }));
    sides[0].verdict(&crate::side::release(&first, grant)).await;
    assert_eq!(sides[1].pushed().await.0, second.attempt);
    // All nodes send it; the effect of a second copy would arrive before the next push.
    let third = sides[0].request(secs(60));
    assert!(matches!(sides[0].acquire(&third).await, Answer::Queued { .. }));
    let event = sides[1].next_event().await;
    assert!(matches!(event, leasehold_core::backend::Event::Wanted { .. }), "{event:?}");
}

/// Waiters at a lock, each of another client; their guards arrive in the order of their grants.
async fn wait_for(url: &str, waiters: usize) -> mpsc::UnboundedReceiver<Guard> {
    let (sender, guards) = mpsc::unbounded_channel();
    for number in 0..waiters {
        let client = connect(url).await;
        let (lock, sender) = (client.lock("a").ttl(secs(60)), sender.clone());
        tokio::spawn(async move { sender.send(lock.acquire_within(secs(60)).await.unwrap()) });
        until("it stands in line", || async {
            let status = client.lock("a").status().await.unwrap();
            status.waiters.unwrap().len() == number + 1
        })
        .await
        .unwrap();
    }
    guards
}

async fn a_lock_at_a_node_that_nobody_listens_at_goes_to_one_alone() {
    let mut cluster = six();
    let slot = cluster.slot("leasehold:{a}").unwrap();
    let holder = connect(&cluster.url()).await.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let mut guards = wait_for(&cluster.url(), 3).await;
    // No client knows the new node yet, and every node forwards its messages.
    cluster.join(RedisSettings::new()).unwrap();
    cluster.move_slot(slot, owner(slot), 6).unwrap();
    let mut token = holder.token();
    holder.release().await.unwrap();
    for _ in 0..3 {
        let guard = guards.recv().await.unwrap();
        assert!(guard.token() > token);
        token = guard.token();
        tokio::time::sleep(ms(300)).await;
        assert!(guards.is_empty() && guard.is_valid(), "two have it");
        guard.release().await.unwrap();
    }
}

async fn a_master_without_slots_is_listened_at() {
    let mut cluster = six();
    let holder = connect(&cluster.url()).await.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let _waiting = wait_for(&cluster.url(), 1).await;
    cluster.join(RedisSettings::new()).unwrap();
    wait("it is listened at", || {
        let channels = cluster.nodes[6].admin(&["PUBSUB", "CHANNELS", "leasehold:c:*"]).unwrap();
        !channels.items().is_empty()
    })
    .unwrap();
    holder.release().await.unwrap();
}
