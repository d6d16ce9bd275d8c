//! Servers that cannot be used and invalid input: a clear error, and nothing changed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use leasehold_conformance::{says, until};
use leasehold_core::backend::{Backend, Origin};
use leasehold_core::{Client, ErrorKind};
use leasehold_test_servers::{Certificates, Proxy, RedisServer, RedisSettings};

use crate::side::Side;
use crate::{Test, connect, plain, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(a_replica_is_refused),
    test!(a_demoted_server_is_left_for_the_one_that_its_name_leads_to),
    test!(a_node_of_a_cluster_is_refused),
    test!(a_sentinel_is_refused),
    test!(a_server_older_than_the_scripts_need_is_refused),
    test!(a_database_that_is_not_there_is_refused),
    test!(a_key_of_another_type_beside_a_record_fails_its_own_lock_alone),
    test!(an_expired_certificate_is_refused),
    test!(a_certificate_of_another_authority_is_refused),
    test!(a_server_with_too_few_replicas_refuses),
    test!(a_server_that_cannot_save_refuses),
    test!(credentials_that_are_no_longer_right_are_named),
    test!(used_up_tokens_are_said_and_nothing_is_changed),
    test!(a_newer_record_is_left_alone_by_everything),
    test!(names_go_up_to_their_limit),
    test!(metadata_that_is_too_large_is_refused),
    test!(what_does_not_fit_into_its_field_is_refused),
    test!(who_releases_is_not_told_what_the_next_one_is_refused),
];

async fn a_replica_is_refused() {
    let master = plain();
    let replica = RedisServer::start(RedisSettings::new().replica_of(&master)).unwrap();
    let error = try_connect(&replica.url()).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["replica", "name its master", "redis+sentinel:"]);
}

async fn a_demoted_server_is_left_for_the_one_that_its_name_leads_to() {
    let (old, new) = (plain(), plain());
    let proxy = Proxy::start(&old).unwrap();
    let client = connect(&proxy.url()).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let port = new.port().to_string();
    old.admin(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let lock = client.lock("a");
    let asking = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    until("the connection is given up for another", || async { proxy.connections_made() > 1 })
        .await
        .unwrap();
    proxy.point_to(&new);
    asking.await.unwrap().unwrap().release().await.unwrap();
    assert!(new.admin(&["EXISTS", "leasehold:{a}"]).unwrap().integer() == Some(1));
}

async fn a_node_of_a_cluster_is_refused() {
    let node = RedisServer::start(RedisSettings::new().cluster()).unwrap();
    let error = try_connect(&node.url()).await.unwrap_err();
    says(&error, ErrorKind::Unsupported, &["cluster", "redis+cluster://HOST:PORT"]);
}

async fn a_sentinel_is_refused() {
    let master = plain();
    let settings = RedisSettings::new().sentinel("main", &master, 1);
    let sentinel = RedisServer::start(settings).unwrap();
    let error = try_connect(&sentinel.url()).await.unwrap_err();
    says(&error, ErrorKind::Unsupported, &["Sentinel", "redis+sentinel://HOST:PORT/MASTER-NAME"]);
}

/// Acts as a server of this version; returns the commands that it received, one for each line.
fn pretend(version: &'static str) -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(String::new()));
    let heard = asked.clone();
    std::thread::spawn(move || {
        let says = |key: &str, value: &str| {
            format!("${}\r\n{key}\r\n${}\r\n{value}\r\n", key.len(), value.len())
        };
        let hello = [("version", version), ("mode", "standalone"), ("role", "master")];
        let hello: String = hello.iter().map(|(key, value)| says(key, value)).collect();
        for stream in listener.incoming() {
            let (mut stream, mut some) = (stream.unwrap(), [0; 4096]);
            while let Ok(count @ 1..) = stream.read(&mut some) {
                let text = String::from_utf8_lossy(&some[..count]).into_owned();
                for command in text.split('*').skip(1) {
                    let words = command.split("\r\n").skip(2).step_by(2);
                    let words = words.collect::<Vec<_>>().join(" ");
                    let is_hello = words.starts_with("HELLO");
                    *heard.lock().unwrap() += &format!("{words}\n");
                    let answer = if is_hello { format!("%3\r\n{hello}") } else { "+OK\r\n".into() };
                    let _ = stream.write_all(answer.as_bytes());
                }
            }
        }
    });
    (url, asked)
}

async fn a_server_older_than_the_scripts_need_is_refused() {
    let (url, asked) = pretend("6.2.14");
    let error = try_connect(&url).await.unwrap_err();
    says(&error, ErrorKind::Unsupported, &["Redis 6.2.14", "7.0 or newer"]);
    let asked = asked.lock().unwrap();
    let harmless = |line: &str| line.starts_with("HELLO") || line.starts_with("CLIENT ");
    assert!(asked.lines().count() > 0 && asked.lines().all(harmless), "{asked}");
}

async fn a_database_that_is_not_there_is_refused() {
    let server = plain();
    let error = try_connect(&format!("{}/99", server.url())).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["no database 99;", "db=N"]);
    let error = try_connect(&format!("{}/first", server.url())).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["database", "a number"]);
    let rules = format!("{} -select", crate::RIGHTS);
    let server = RedisServer::start(RedisSettings::new().user("app", &rules)).unwrap();
    let url = format!("{}/1", server.url_as("app", "s3cret"));
    says(&try_connect(&url).await.unwrap_err(), ErrorKind::Refused, &["may not", "'select'"]);
}

async fn a_key_of_another_type_beside_a_record_fails_its_own_lock_alone() {
    let server = plain();
    let client = connect(&server.url()).await;
    for suffix in ["q", "t"] {
        let key = format!("leasehold:{{a}}:{suffix}");
        server.admin(&["FLUSHALL"]).unwrap();
        server.admin(&["SET", &key, "other"]).unwrap();
        let held = client.lock("b").acquire().await.unwrap();
        let waiter = connect(&server.url()).await;
        let _holder = client.lock("a").try_acquire().await;
        let error = waiter.lock("a").acquire_within(secs(30)).await.unwrap_err();
        says(&error, ErrorKind::Foreign, &[&key, "choose another prefix or name"]);
        held.release().await.unwrap();
        assert_eq!(server.admin(&["GET", &key]).unwrap().text(), "other");
    }
}

/// The URL of a server with TLS, for a client that trusts `trusted`.
fn tls(server: &RedisServer, trusted: &Certificates) -> String {
    let url = server.tls_url().unwrap();
    format!("{url}?tls-ca={}", trusted.authority().display())
}

async fn an_expired_certificate_is_refused() {
    let expired = Certificates::make_expired().unwrap();
    let settings = RedisSettings::new().tls(&expired).tls_client_optional();
    let server = RedisServer::start(settings).unwrap();
    let error = try_connect(&tls(&server, &expired)).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["certificate has expired", "renew it"]);
}

async fn a_certificate_of_another_authority_is_refused() {
    let (right, wrong) = (Certificates::make().unwrap(), Certificates::make().unwrap());
    let settings = RedisSettings::new().tls(&right).tls_client_optional();
    let server = RedisServer::start(settings).unwrap();
    let error = try_connect(&tls(&server, &wrong)).await.unwrap_err();
    says(&error, ErrorKind::Refused, &["not trusted", "tls-ca"]);
    try_connect(&tls(&server, &right)).await.unwrap();
}

async fn a_server_with_too_few_replicas_refuses() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    server.admin(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    let error = client.lock("b").acquire().await.unwrap_err();
    says(&error, ErrorKind::Refused, &["too few replicas", "min-replicas-to-write"]);
    assert_eq!(server.admin(&["EXISTS", "leasehold:{b}"]).unwrap().integer(), Some(0));
    // A refused release is completed, long before the ttl ends.
    says(&guard.release().await.unwrap_err(), ErrorKind::Refused, &["too few replicas"]);
    server.admin(&["CONFIG", "SET", "min-replicas-to-write", "0"]).unwrap();
    until("it is released", || async {
        client.lock("a").status().await.unwrap().state == leasehold_core::State::Free
    })
    .await
    .unwrap();
}

async fn a_server_that_cannot_save_refuses() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    server.admin(&["CONFIG", "SET", "save", "1 1"]).unwrap();
    // A directory in its place prevents writing.
    std::fs::create_dir(server.data().join("dump.rdb")).unwrap();
    server.admin(&["BGSAVE"]).unwrap();
    until("the snapshot fails", || async {
        let info = server.admin(&["INFO", "persistence"]).unwrap().text();
        info.contains("rdb_last_bgsave_status:err")
    })
    .await
    .unwrap();
    let error = client.lock("b").acquire().await.unwrap_err();
    says(&error, ErrorKind::Refused, &["cannot save its data", "MISCONF"]);
    assert_eq!(server.admin(&["EXISTS", "leasehold:{b}"]).unwrap().integer(), Some(0));
    server.admin(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]).unwrap();
    guard.release().await.unwrap();
}

async fn credentials_that_are_no_longer_right_are_named() {
    let server = RedisServer::start(RedisSettings::new().password("s3cret")).unwrap();
    let client = connect(&server.url()).await;
    server.admin(&["CONFIG", "SET", "requirepass", "another"]).unwrap();
    server.admin(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
    server.admin(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let says_so = async || {
        let error = client.lock("a").status().await.err()?;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        error.to_string().contains("wrong user or password").then_some(())
    };
    until("the error contains the cause", || async { says_so().await.is_some() }).await.unwrap();
    server.admin(&["CONFIG", "SET", "requirepass", "s3cret"]).unwrap();
    client.lock("a").acquire_within(secs(20)).await.unwrap().release().await.unwrap();
}

async fn used_up_tokens_are_said_and_nothing_is_changed() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let request = side.request(secs(30));
    let first = side.granted(&request).await;
    side.verdict(&crate::side::release(&request, first)).await;
    // This far beyond the clock there is one token at a time, down to the last.
    for left in [15, 1] {
        let token = leasehold_core::Token::MAX.get() - left;
        server.admin(&["SETRANGE", "leasehold:{a}", "84", &format!("{token:016}")]).unwrap();
        let request = side.request(secs(30));
        let grant = side.granted(&request).await;
        assert_eq!((grant.tokens.base().get(), grant.tokens.top().get()), (token + 1, token + 1));
        side.verdict(&crate::side::release(&request, grant)).await;
    }
    let before = server.admin(&["GET", "leasehold:{a}"]).unwrap();
    for tokens in [1, 16] {
        let request = side.request(secs(30)).with_tokens(tokens);
        let error = side.backend.acquire(request).await.unwrap_err();
        says(&error, ErrorKind::Foreign, &["leasehold:{a}", "no token left"]);
        assert_eq!(server.admin(&["GET", "leasehold:{a}"]).unwrap(), before);
    }
}

async fn a_newer_record_is_left_alone_by_everything() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let request = side.request(secs(30));
    let grant = side.granted(&request).await;
    let newer = format!("L3{}", "0".repeat(200));
    server.admin(&["SET", "leasehold:{a}", &newer]).unwrap();
    let newer_version = ["newer version", "upgrade this program"];
    let error = side.backend.acquire(request.clone()).await.unwrap_err();
    says(&error, ErrorKind::Foreign, &newer_version);
    let name = crate::side::name();
    let error = side.backend.status(&name).await.unwrap_err();
    says(&error, ErrorKind::Foreign, &newer_version);
    let error = side.backend.force_release(&name, grant.tokens.base()).await.unwrap_err();
    says(&error, ErrorKind::Foreign, &newer_version);
    let renewed = side.renew(&request, grant).await.unwrap();
    assert_eq!(renewed, leasehold_core::backend::Renewed::Lost);
    let verdict = side.verdict(&crate::side::release(&request, grant)).await;
    assert_eq!(verdict, leasehold_core::backend::Verdict::Lost);
    assert_eq!(server.admin(&["GET", "leasehold:{a}"]).unwrap().text(), newer);
}

async fn names_go_up_to_their_limit() {
    let server = plain();
    let client = connect(&server.url()).await;
    for name in ["{".repeat(512), "锁".repeat(170), "*".repeat(512)] {
        let guard = client.lock(name.as_str()).acquire().await.unwrap();
        assert_eq!(client.list(&name, 10).await.unwrap().len(), 1);
        guard.release().await.unwrap();
    }
    let keys = server.admin(&["DBSIZE"]).unwrap();
    for name in [String::new(), "a".repeat(513), "a\nb".to_owned()] {
        let error = client.lock(name.as_str()).acquire().await.unwrap_err();
        says(&error, ErrorKind::Invalid, &["name"]);
    }
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), keys);
}

async fn metadata_that_is_too_large_is_refused() {
    let server = plain();
    let client = connect(&server.url()).await;
    let error = client.lock("a").metadata("x".repeat(1025)).acquire().await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["metadata", "1025", "1024"]);
    assert_eq!(server.admin(&["DBSIZE"]).unwrap().integer(), Some(0));
    // The text that becomes longest when it is escaped.
    let text = "\u{1}".repeat(1024);
    let guard = client.lock("a").metadata(text.as_str()).acquire().await.unwrap();
    let holder = client.lock("a").status().await.unwrap().holder.unwrap();
    assert_eq!(holder.metadata.as_deref(), Some(text.as_str()));
    guard.release().await.unwrap();
}

async fn what_does_not_fit_into_its_field_is_refused() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let mut long = side.request(secs(100_000));
    let error = side.backend.acquire(long.clone()).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["ttl"]);
    long.ttl = secs(24 * 3600);
    long.tokens = 100_000_000;
    let error = side.backend.acquire(long.clone()).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["tokens"]);
    let mut release = crate::side::unheard(&long);
    release.keep = Some(secs(100_000));
    says(&side.release(&release).await.unwrap_err(), ErrorKind::Invalid, &["keep"]);
    release.keep = None;
    release.then = Some(long.clone().into());
    says(&side.release(&release).await.unwrap_err(), ErrorKind::Invalid, &["tokens"]);
    let origin = Origin::new("host", 1, Some("x".repeat(10_000)));
    (long.tokens, long.origin) = (16, Arc::new(origin));
    says(&side.backend.acquire(long).await.unwrap_err(), ErrorKind::Invalid, &["metadata"]);
    assert_eq!(server.admin(&["DBSIZE"]).unwrap().integer(), Some(0));
    let longest = side.request(secs(24 * 3600));
    side.granted(&longest).await;
    let remaining = side.status().await.remaining.unwrap();
    assert!(remaining > secs(86_000), "{remaining:?}");
}

async fn who_releases_is_not_told_what_the_next_one_is_refused() {
    // It may not be in the queue of the server.
    let rules = "on >pw ~leasehold:* &leasehold:* +@all -zadd";
    let server = RedisServer::start(RedisSettings::new().user("weak", rules)).unwrap();
    let (weak, other) = (connect(&server.url_as("weak", "pw")).await, connect(&server.url()).await);
    let held = weak.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let wait = |client: &Client| {
        let lock = client.lock("a");
        tokio::spawn(async move { lock.acquire_within(secs(30)).await })
    };
    let (outside, next) = (wait(&other), wait(&weak));
    until("all wait", || async {
        let queue = server.admin(&["ZCARD", "leasehold:{a}:q"]).unwrap();
        queue.integer() == Some(1) && weak.usage().waiting == 1
    })
    .await
    .unwrap();
    held.release().await.unwrap();
    says(&next.await.unwrap().unwrap_err(), ErrorKind::Refused, &["may not do this"]);
    outside.await.unwrap().unwrap().release().await.unwrap();
}
