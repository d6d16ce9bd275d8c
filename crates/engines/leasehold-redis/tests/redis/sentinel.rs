//! Three real sentinels: a master that crashes, one that comes back, and possible faults.

use leasehold_conformance::{reconnects, says, until};
use leasehold_core::ErrorKind;
use leasehold_test_servers::{
    Certificates, Proxy, RedisSentinels, RedisServer, RedisSettings, wait,
};

use crate::crowd::Crowd;
use crate::{Test, calls, connect, everything_works, plain, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_master_is_followed_by_fifty_clients),
    test!(a_holder_keeps_its_lock_over_a_failover),
    test!(a_master_that_was_stopped_is_left_before_it_goes_on),
    test!(a_client_that_asks_during_a_failover_follows_its_switch),
    test!(sentinels_that_are_away_or_of_another_mind_are_outvoted),
    test!(a_sentinel_that_breaks_each_connection_is_asked_with_pauses),
    test!(what_is_wrong_with_sentinels_is_said),
    test!(passwords_and_tls_of_servers_and_sentinels),
];

fn three() -> RedisSentinels {
    RedisSentinels::start(RedisSettings::new(), RedisSettings::new()).unwrap()
}

async fn a_killed_master_is_followed_by_fifty_clients() {
    let mut all = three();
    let crowd = Crowd::start(&all.url(), 50, &["a".to_owned()]).await;
    crowd.progress(200).await;
    crowd.stay().await;
    all.servers[0].kill();
    let new = all.master_after(0).unwrap();
    crowd.leave();
    crowd.progress(200).await;
    // It still acts as the master, until a sentinel reconfigures it.
    all.servers[0].start_again().unwrap();
    crowd.progress(200).await;
    // Sentinels watch it for eight seconds before they reconfigure it.
    wait("the old master follows the new one", || {
        all.servers[0].info("role").is_ok_and(|role| role == "slave")
    })
    .unwrap();
    let seen = crowd.stop().await;
    println!("sentinel, master killed under 50 clients: {seen:?}");
    assert_eq!(calls(&all.servers[0]), 0, "the old master was used");
    assert!(calls(&all.servers[new]) > 0);
    // The replica missed at most one grant: there is one lock.
    assert!(seen.overlaps <= 1, "{seen:?}");
    assert_eq!(seen.fallen, 0, "{seen:?}");
}

async fn a_holder_keeps_its_lock_over_a_failover() {
    let mut all = three();
    let (holder, other) = (connect(&all.url()).await, connect(&all.url()).await);
    let guard = holder.lock("a").ttl(secs(60)).renew_after(secs(1)).acquire().await.unwrap();
    let replica = &all.servers[1];
    until("the replica has it", || async {
        replica.admin(&["EXISTS", "leasehold:{a}"]).unwrap().integer() == Some(1)
    })
    .await
    .unwrap();
    let waiting = tokio::spawn({
        let lock = other.lock("a").ttl(secs(60));
        async move { lock.acquire_within(secs(60)).await }
    });
    all.servers[0].kill();
    let new = all.master_after(0).unwrap();
    until("the waiter stands in line at the new master", || async {
        let queue = all.servers[new].admin(&["ZCARD", "leasehold:{a}:q"]);
        queue.is_ok_and(|queue| queue.integer() == Some(1))
    })
    .await
    .unwrap();
    until("the holder is there too", || async { holder.lock("a").status().await.is_ok() })
        .await
        .unwrap();
    assert!(guard.is_valid());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

async fn a_master_that_was_stopped_is_left_before_it_goes_on() {
    let all = three();
    let client = connect(&all.url()).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let before = calls(&all.servers[0]);
    all.servers[0].stop().unwrap();
    let new = all.master_after(0).unwrap();
    // By the report of a sentinel alone: the client sends nothing.
    until("the client has gone there", || async {
        let channels = all.servers[new].admin(&["PUBSUB", "CHANNELS", "leasehold:c:*"]).unwrap();
        channels.items().len() == 1
    })
    .await
    .unwrap();
    // For some seconds it acts as the master, and the old connection was never closed.
    all.servers[0].resume().unwrap();
    assert_eq!(all.servers[0].info("role").unwrap(), "master");
    let guard = client.lock("a").acquire().await.unwrap();
    assert_eq!(calls(&all.servers[0]), before, "the old master was asked");
    let held = all.servers[new].admin(&["GETRANGE", "leasehold:{a}", "34", "34"]).unwrap();
    assert_eq!(held.text(), "H");
    guard.release().await.unwrap();
}

async fn a_client_that_asks_during_a_failover_follows_its_switch() {
    let all = three();
    let sentinel = &all.sentinels[0];
    let patient = ["SENTINEL", "SET", RedisSentinels::NAME, "down-after-milliseconds", "60000"];
    sentinel.admin(&patient).unwrap();
    let epoch_and_port = || -> (u64, u16) {
        let answer = sentinel.admin(&["SENTINEL", "MASTER", RedisSentinels::NAME]).unwrap();
        let fields: Vec<String> = answer.items().iter().map(|value| value.text()).collect();
        let field = |name| fields.chunks(2).find(|field| field[0] == name).unwrap()[1].clone();
        (field("config-epoch").parse().unwrap(), field("port").parse().unwrap())
    };
    let (epoch, old) = epoch_and_port();
    let is_master = |at: usize| all.servers[at].info("role").is_ok_and(|role| role == "master");
    sentinel.admin(&["SENTINEL", "FAILOVER", RedisSentinels::NAME]).unwrap();
    wait("a replica is promoted", || is_master(1) || is_master(2)).unwrap();
    let (new, other) = if is_master(1) { (1, 2) } else { (2, 1) };
    // The sentinel waits for it, and meanwhile names the old master with the new epoch.
    all.servers[other].stop().unwrap();
    wait("the sentinel has the new epoch", || epoch_and_port().0 > epoch).unwrap();
    let alone = format!("redis+sentinel://{}/{}", sentinel.address(), RedisSentinels::NAME);
    let client = connect(&alone).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert!(calls(&all.servers[0]) > 0 && epoch_and_port().1 == old, "the failover was too fast");
    until("the client has gone to the new master", || async {
        let channels = all.servers[new].admin(&["PUBSUB", "CHANNELS", "leasehold:c:*"]).unwrap();
        channels.items().len() == 1
    })
    .await
    .unwrap();
    // By the sentinel's report: sentinels make the old master a replica only after 8 s.
    assert!(is_master(0));
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    all.servers[other].resume().unwrap();
}

async fn sentinels_that_are_away_or_of_another_mind_are_outvoted() {
    let mut all = three();
    let stranger = plain();
    let settings = RedisSettings::new().sentinel(RedisSentinels::NAME, &stranger, 2);
    let other = RedisServer::start(settings).unwrap();
    let more = |list: String| format!("redis+sentinel://{}/{}", list, RedisSentinels::NAME);
    let known = |n: usize| all.sentinels[n].address().to_string();
    let works = |url: String| async move {
        connect(&url).await.lock("a").acquire().await.unwrap().release().await.unwrap();
    };
    works(more(format!("{},{},{}", other.address(), known(0), known(1)))).await;
    assert_eq!(stranger.admin(&["DBSIZE"]).unwrap().integer(), Some(0));
    let split = more(format!("{},{}", other.address(), known(0)));
    let error = try_connect(&split).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["do not agree", &other.address().to_string()]);
    all.sentinels[0].kill();
    works(all.url()).await;
    all.sentinels[1].stop().unwrap();
    works(all.url()).await;
    all.sentinels[2].kill();
    let error = try_connect(&all.url()).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["no sentinel names the master"]);
}

async fn a_sentinel_that_breaks_each_connection_is_asked_with_pauses() {
    let all = three();
    let proxy = Proxy::start(&all.sentinels[0]).unwrap();
    let url = format!("redis+sentinel://{}/{}", proxy.address(), RedisSentinels::NAME);
    let client = connect(&url).await;
    // The client listens to it, and it has answered.
    let answered = || proxy.commands().get("SENTINEL").copied().unwrap_or_default();
    until("it is listened to", || async { proxy.commands().contains_key("SUBSCRIBE") })
        .await
        .unwrap();
    // Pauses that double from 100 ms to 2 s take half of that on average.
    let made = reconnects(&proxy, secs(5), answered).await;
    assert!((2..30).contains(&made), "{made} connections in 5 s");
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn what_is_wrong_with_sentinels_is_said() {
    let all = three();
    let places = all.place().replace("/main", "");
    let error = try_connect(&format!("redis+sentinel://{places}/other")).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["\"other\"", "sentinel monitor"]);
    let error = try_connect(&format!("redis+sentinel://{places}")).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["master name is missing"]);
    let server = format!("redis+sentinel://{}/main", all.servers[0].address());
    says(&try_connect(&server).await.unwrap_err(), ErrorKind::Unsupported, &["not a Sentinel"]);
    let error = try_connect(&format!("{}?admission=strict", all.url())).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["unknown option \"admission\"", "replicas"]);
    let error = try_connect(&format!("{}?sentinel-tls=maybe", all.url())).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["sentinel-tls", "on or off"]);
}

/// The rights that `docs/redis.md` lists for a user of sentinels.
const WATCHER: &str = "on >w4tch resetchannels &+switch-master -@all +sentinel|master +subscribe \
    +hello +auth +ping";

async fn passwords_and_tls_of_servers_and_sentinels() {
    let certificates = Certificates::make().unwrap();
    let servers = RedisSettings::new().tls(&certificates).tls_between().user("app", crate::RIGHTS);
    let servers = servers.line("user default off");
    let sentinels = RedisSettings::new().tls(&certificates).tls_between().user("watcher", WATCHER);
    let sentinels = sentinels.line("user default off");
    let all = RedisSentinels::start(servers, sentinels).unwrap();
    let tls = format!(
        "tls-ca={}&tls-cert={}&tls-key={}",
        certificates.authority().display(),
        certificates.client().display(),
        certificates.client_key().display()
    );
    let file = all.servers[0].data().join("password");
    std::fs::write(&file, "w4tch\n").unwrap();
    let url = |login: &str, password: &str| {
        let place = all.place();
        format!("rediss+sentinel://{login}@{place}?sentinel-user=watcher&{password}&{tls}")
    };
    let right = format!("sentinel-password-file={}", file.display());
    everything_works(&url("app:s3cret", &right)).await;
    everything_works(&url("app:s3cret", "sentinel-password=w4tch")).await;
    for (login, password, word) in [
        ("app:s3cret", "sentinel-password=wr0ng", "sentinel"),
        ("app:wr0ng", "sentinel-password=w4tch", "wrong user or password"),
    ] {
        let error = try_connect(&url(login, password)).await.unwrap_err();
        says(&error, ErrorKind::Refused, &["wrong user or password", word]);
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
    }
    let client = connect(&url("app:s3cret", "sentinel-password=w4tch")).await;
    let shown = format!("{client:?} {}", client.place());
    assert!(!shown.contains("w4tch") && !shown.contains("s3cret"), "{shown}");
}
