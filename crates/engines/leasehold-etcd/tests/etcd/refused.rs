//! Servers that cannot be used and input that is not allowed: said clearly, and nothing changed.

use leasehold_conformance::until;
use leasehold_core::{Error, ErrorKind, State};
use leasehold_test_servers::{Certificates, EtcdServer, EtcdSettings};
use serde_json::json;

use crate::{Test, cluster, connect, operator, secs, server, test, try_connect, url_of};

pub(crate) const TESTS: &[Test] = &[
    test!(nobody_listens),
    test!(users_and_passwords_are_checked),
    test!(a_user_sees_no_more_than_its_prefix),
    test!(a_login_that_has_expired_is_made_anew),
    test!(a_login_that_takes_longer_than_a_request_is_finished),
    test!(refused_puts_leave_one_lease_for_the_limit),
    test!(certificates_are_checked),
    test!(a_minority_decides_nothing),
    test!(a_full_server_takes_no_locks_but_gives_them_back),
    test!(names_go_up_to_their_limit),
    test!(prefixes_keep_apart),
];

/// The kind, and words that must stand in the text; a password never does.
#[track_caller]
fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    leasehold_conformance::says(error, kind, words);
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}

async fn nobody_listens() {
    let error = try_connect("etcd://127.0.0.1:1").await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["nothing listens", "is the server running"]);
    let error = try_connect("etcd://127.0.0.1:1,127.0.0.1:2").await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["nothing listens"]);
    let error = try_connect("etcd://no-such-host.invalid").await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["host name cannot be resolved"]);
}

async fn users_and_passwords_are_checked() {
    let server = server();
    let place = server.place();
    let error = try_connect(&format!("etcd://app:s3cret@{place}")).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["has authentication disabled", "remove user and password"]);
    server.enable_users("app", "s3cret", "leasehold/").unwrap();
    let error = try_connect(&format!("etcd://{place}")).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["requires a user and a password"]);
    for wrong in ["app:s3cret2", "nobody:s3cret"] {
        let error = try_connect(&format!("etcd://{wrong}@{place}")).await.unwrap_err();
        says(&error, ErrorKind::Refused, &["wrong user or password"]);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "s3cret\n").unwrap();
    let file = file.path().display();
    let client = connect(&format!("etcd://{place}?user=app&password-file={file}")).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert!(!format!("{client:?} {}", client.place()).contains("s3cret"));
    // It is taken away while it is used.
    let guard = client.lock("a").acquire().await.unwrap();
    server.call_as_root("auth/user/revoke", &json!({"name": "app", "role": "locks"})).unwrap();
    let error = client.lock("b").acquire().await.unwrap_err();
    says(&error, ErrorKind::Refused, &["may not do this", "docs/etcd.md"]);
    server.call_as_root("auth/user/grant", &json!({"user": "app", "role": "locks"})).unwrap();
    guard.release().await.unwrap();
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
}

async fn a_user_sees_no_more_than_its_prefix() {
    let server = server();
    server.enable_users("app", "s3cret", "leasehold/").unwrap();
    let other = format!("etcd://app:s3cret@{}/elsewhere", server.place());
    let error = try_connect(&other).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["may not do this", "below the prefix"]);
}

async fn a_login_that_has_expired_is_made_anew() {
    let settings = EtcdSettings::new().arg("--auth-token-ttl=1");
    let server = EtcdServer::start(settings).unwrap();
    server.enable_users("app", "s3cret", "leasehold/").unwrap();
    let url = format!("etcd://app:s3cret@{}", server.place());
    let (one, two) = (connect(&url).await, connect(&url).await);
    let ended = || server.log().matches("deleted a simple token").count();
    let asked = || server.metric_of("grpc_server_handled_total", "grpc_method=\"Txn\"").unwrap();
    let before = asked();
    for name in ["a", "b"] {
        let before = ended();
        let guard = one.lock(name).acquire().await.unwrap();
        let lock = two.lock(name);
        let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
        until("it waits", || async {
            one.lock(name).status().await.unwrap().waiters.is_some_and(|waiters| waiters.len() == 1)
        })
        .await
        .unwrap();
        // Unused logins expire after a second. Both clients have only open streams, and in the
        // second round they are those of the first.
        until("both logins have ended", || async { ended() >= before + 2 }).await.unwrap();
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    let asked = asked() - before;
    assert!(asked < 60.0, "{asked} requests: watches that are refused are asked for at once");
    // One of each, and another of the one whose watch was refused.
    let opened = server.metric_of("grpc_server_started_total", "grpc_method=\"Watch\"").unwrap();
    assert!(opened >= 3.0, "{opened} streams of watches were opened");
}

async fn a_login_that_takes_longer_than_a_request_is_finished() {
    // To check a password takes about a second. A request for a ttl of a second may take half of one.
    let settings = EtcdSettings::new().arg("--auth-token-ttl=1").arg("--bcrypt-cost=14");
    let server = EtcdServer::start(settings).unwrap();
    server.enable_users("app", "s3cret", "leasehold/").unwrap();
    // On a busy machine the first login takes longer than the five seconds that a connection has without the option.
    let place = format!("{}?connect-timeout=20s", server.place());
    let client = connect(&format!("etcd://app:s3cret@{place}")).await;
    let ended = || server.log().matches("deleted a simple token").count();
    until("the login has ended", || async { ended() > 0 }).await.unwrap();
    let guard = client.lock("a").ttl(secs(1)).acquire_within(secs(60)).await.unwrap();
    guard.release().await.ok();
}

async fn refused_puts_leave_one_lease_for_the_limit() {
    let server = server();
    server.enable_users("app", "s3cret", "leasehold/").unwrap();
    let client = connect(&format!("etcd://app:s3cret@{}", server.place())).await;
    let may = |what: &str| {
        let range =
            json!({"permType": what, "key": "bGVhc2Vob2xkLw==", "range_end": "bGVhc2Vob2xkMA=="});
        server.call_as_root("auth/role/grant", &json!({"name": "locks", "perm": range})).unwrap();
    };
    let long_ones = || {
        let leases = server.call_as_root("lease/leases", &json!({})).unwrap();
        let leases = leases["leases"].as_array().cloned().unwrap_or_default();
        let granted = |lease: &serde_json::Value| {
            let seen =
                server.call_as_root("lease/timetolive", &json!({"ID": lease["ID"]})).unwrap();
            seen["grantedTTL"].as_str().and_then(|secs| secs.parse::<u64>().ok()).unwrap_or(0)
        };
        leases.iter().filter(|lease| granted(lease) > 3_600).count()
    };
    may("READ");
    for _ in 0..3 {
        let error = client.semaphore("a", 2).acquire().await.unwrap_err();
        says(&error, ErrorKind::Refused, &["may not do this"]);
    }
    assert!(long_ones() <= 1, "each put that was refused has left a lease");
    may("READWRITE");
    client.semaphore("a", 2).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(long_ones(), 1, "the limit has a lease of its own");
}

async fn certificates_are_checked() {
    let (right, wrong) = (Certificates::make().unwrap(), Certificates::make().unwrap());
    let server = EtcdServer::start(EtcdSettings::new().tls(&right)).unwrap();
    let url = |trusted: &Certificates, client: &Certificates| {
        format!(
            "{}?tls-ca={}&tls-cert={}&tls-key={}",
            server.url(),
            trusted.authority().display(),
            client.client().display(),
            client.client_key().display()
        )
    };
    let client = connect(&url(&right, &right)).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let error = try_connect(&url(&wrong, &right)).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["not trusted", "tls-ca"]);
    let none = format!("{}?tls-ca={}", server.url(), right.authority().display());
    for url in [url(&right, &wrong), none] {
        // It says so, or just hangs up: both may come first.
        let error = try_connect(&url).await.unwrap_err();
        says(&error, error.kind(), &["client certificate", "tls-cert"]);
    }
    let error = try_connect(&format!("etcd://{}", server.place())).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["etcds:"]);
    let plain = server.plain_url().replace("http", "etcds");
    let error = try_connect(&plain).await.unwrap_err();
    says(&error, error.kind(), &["does not speak TLS", "write etcd:"]);
}

async fn a_minority_decides_nothing() {
    let mut members = cluster();
    let url = url_of(&members);
    let client = connect(&url).await;
    let guard = client.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let token = guard.token();
    members[0].kill();
    members[1].kill();
    let error = client.lock("b").acquire_within(secs(4)).await.unwrap_err();
    says(&error, ErrorKind::Timeout, &[]);
    let error = try_connect(&url).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &[]);
    assert!(guard.is_valid());
    // Each waits for the other.
    let (one, two) = members.split_at_mut(1);
    std::thread::scope(|scope| {
        scope.spawn(|| one[0].start_again().unwrap());
        scope.spawn(|| two[0].start_again().unwrap());
    });
    let next = client.lock("b").acquire_within(secs(30)).await.unwrap();
    assert!(next.token() > token && guard.is_valid());
    guard.release().await.unwrap();
}

async fn a_full_server_takes_no_locks_but_gives_them_back() {
    let server = EtcdServer::start(EtcdSettings::new().quota(256 * 1024)).unwrap();
    let client = connect(&server.url()).await;
    let kept = client.lock("kept").ttl(secs(60)).renew_after(secs(1));
    let given = client.lock("given");
    let (kept, given) = (kept.acquire().await.unwrap(), given.acquire().await.unwrap());
    let operator = operator(&server).await;
    while operator.put("junk", vec![0; 64 * 1024], None).await.is_ok() {}
    let error = client.lock("new").acquire().await.unwrap_err();
    says(&error, ErrorKind::Refused, &["server is full", "disarm its alarm"]);
    assert_eq!(client.lock("new").status().await.unwrap().state, State::Free);
    given.release().await.unwrap();
    assert_eq!(client.lock("given").status().await.unwrap().state, State::Free);
    let deadline = kept.deadline();
    until("it is renewed", || async { kept.deadline() != deadline }).await.unwrap();
    kept.release().await.unwrap();
}

async fn names_go_up_to_their_limit() {
    let server = server();
    let client = connect(&server.url()).await;
    let longest = "锁".repeat(170) + "ab";
    assert_eq!(longest.len(), 512);
    let guard = client.lock(&longest).metadata("x".repeat(1024)).acquire().await.unwrap();
    let status = client.lock(&longest).status().await.unwrap();
    assert_eq!(status.holder.unwrap().metadata.unwrap().len(), 1024);
    let error = client.lock("x".repeat(513)).acquire().await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["name: ", "513", "512"]);
    for name in ["a\tb", "a\0b"] {
        says(&client.lock(name).acquire().await.unwrap_err(), ErrorKind::Invalid, &["name: "]);
    }
    guard.release().await.unwrap();
}

async fn prefixes_keep_apart() {
    let server = server();
    let one = connect(&format!("{}/one", server.url())).await;
    let two = connect(&server.url()).await;
    let guard = one.lock("a").acquire().await.unwrap();
    two.lock("a").acquire_within(secs(10)).await.unwrap().release().await.unwrap();
    assert_eq!(two.list("", 10).await.unwrap().len(), 0);
    assert_eq!(one.list("", 10).await.unwrap().len(), 1);
    guard.release().await.unwrap();
}
