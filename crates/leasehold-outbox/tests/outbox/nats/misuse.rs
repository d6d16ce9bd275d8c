//! What cannot be used is named, without its secrets, and nothing is taken for delivered.

use std::time::Duration;

use leasehold_outbox::ErrorKind;
use leasehold_outbox::{Change, NatsTransport, Receiver, Transport};
use leasehold_test_servers::{NatsServer, NatsSettings};
use serde_json::json;
use sqlx::{Pool, Sqlite};

use super::super::recorder::Recorder;
use super::super::{outbox, rows};
use super::{STREAM, broker, changes, configure, messages};

pub(super) async fn what_cannot_be_used_is_named_without_its_secrets(pool: Pool<Sqlite>) {
    let (outbox, builder) = outbox(&pool).await;
    changes(&pool, &outbox, &["a".into()]).await;
    let guarded = NatsServer::start(NatsSettings::new().user("app", "right")).unwrap();
    let plain = NatsServer::start(NatsSettings::new().no_jetstream()).unwrap();
    let mut gone = broker().await;
    gone.kill();
    let wrong = guarded.url_as("app", "secret");
    let token = guarded.url().replace("://", "://secret@");
    for (url, says) in [
        (gone.url(), "refused"),
        (wrong, "authorization violation"),
        (token, "authorization violation"),
        (guarded.url(), "authorization violation"),
        (plain.url(), "JetStream"),
        (plain.url().replace("nats:", "tls:"), "tls://127.0.0.1"),
    ] {
        let nats = NatsTransport::open(&url).unwrap();
        let relay = builder.clone().open(&url).unwrap();
        let receiver = Receiver::builder(&url).unwrap().to(Recorder::new()).unwrap();
        let errors = [
            nats.create().await.unwrap_err(),
            relay.once().await.unwrap_err(),
            receiver.once().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{url}: {error}");
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        let stats = relay.stats();
        assert_eq!((stats.failures, stats.refused, rows(&pool).await), (1, 0, 1), "{url}");
        assert!(!format!("{nats:?} {relay:?} {receiver:?}").contains("secret"));
    }
    for url in ["nats://u:secret@", "redis://secret@h", "nats://h?subject=>"] {
        for error in [NatsTransport::open(url).unwrap_err(), Receiver::builder(url).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
    let builder = || Receiver::builder(&gone.url()).unwrap();
    for (builder, word) in [
        (builder().batch(0), "batch"),
        (builder().batch(1_001), "batch"),
        (builder().tries(0), "tries"),
        (builder().claim(Duration::from_millis(999)), "claim"),
    ] {
        let error = builder.to(Recorder::new()).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(word), "{error}");
    }
}

/// A server without the stream, or where the subject goes into another one.
pub(super) async fn a_stream_that_is_not_there_is_no_delivery(pool: Pool<Sqlite>) {
    let nats = NatsServer::start(NatsSettings::new()).unwrap();
    let (outbox, builder) = outbox(&pool).await;
    changes(&pool, &outbox, &["a".into()]).await;
    let relay = builder.tries(1).open(&nats.url()).unwrap();
    let receiver = Receiver::builder(&nats.url()).unwrap().to(Recorder::new()).unwrap();
    for error in [relay.once().await.unwrap_err(), receiver.once().await.unwrap_err()] {
        assert!(error.to_string().contains("leasehold cache init --to nats://"), "{error}");
    }
    let other = format!("{}?stream=other", nats.url());
    NatsTransport::open(&other).unwrap().create().await.unwrap();
    let error = relay.once().await.unwrap_err();
    assert!(error.to_string().contains("another stream than \"leasehold-cache\""), "{error}");
    assert_eq!((rows(&pool).await, relay.stats().refused), (1, 0));
    nats.request("$JS.API.STREAM.DELETE.other", &json!({})).unwrap();
    for _ in 0..2 {
        NatsTransport::open(&nats.url()).unwrap().create().await.unwrap(); // Again: nothing happens.
    }
    assert_eq!((relay.once().await.unwrap(), messages(&nats)), (1, 1));
    assert_eq!(receiver.once().await.unwrap(), 1);
}

pub(super) async fn a_stream_or_consumer_that_will_not_do_is_named(pool: Pool<Sqlite>) {
    drop(pool);
    let nats = broker().await;
    let create = async |query: &str| {
        let url = format!("{}?{query}", nats.url());
        NatsTransport::open(&url).unwrap().create().await.map_err(|error| error.to_string())
    };
    let error = create("subject=another").await.unwrap_err();
    assert!(
        error.contains("accepts leasehold-cache.changes, not the subject \"another\""),
        "{error}"
    );
    let error = create("stream=too").await.unwrap_err();
    assert!(error.contains("subjects overlap"), "{error}");
    let error = create("stream=many&subject=many&replicas=3").await.unwrap_err();
    assert!(error.contains("replicas"), "{error}");
    configure(&nats, "subjects", json!(["elsewhere"]));
    let nobody = NatsTransport::open(&nats.url()).unwrap();
    let change = Change::new("a:b", "c", Duration::ZERO);
    let error = nobody.deliver(&[change]).await.unwrap_err();
    assert!(error.to_string().contains("the subject \"leasehold-cache.changes\""), "{error}");
    configure(&nats, "subjects", json!(["leasehold-cache.>"]));
    create("").await.unwrap();
    let consumer = |name: &str, config: serde_json::Value| {
        let body = json!({"stream_name": STREAM, "config": config});
        nats.request(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{name}"), &body).unwrap();
    };
    let config = json!({"durable_name": "push", "deliver_subject": "x", "ack_policy": "explicit"});
    consumer("push", config);
    consumer("all", json!({"durable_name": "all", "ack_policy": "all"}));
    for (durable, says) in [("push", "push consumer"), ("all", "explicit")] {
        let url = format!("{}?durable={durable}", nats.url());
        let receiver = Receiver::builder(&url).unwrap().to(Recorder::new()).unwrap();
        let error = receiver.once().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let text = NatsTransport::open(&nats.url()).unwrap().stream();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(config["subjects"], json!(["leasehold-cache.changes"]));
    assert_eq!((&config["discard"], &config["num_replicas"]), (&json!("new"), &json!(1)));
}

/// The server says so beside the answers, and gives none to the message.
pub(super) async fn a_user_who_may_not_publish_is_told_so(pool: Pool<Sqlite>) {
    let may = "publish: {deny: \"leasehold-cache.changes\"}";
    let settings = NatsSettings::new().user_with("app", "secret", may);
    let nats = NatsServer::start(settings).unwrap();
    let url = nats.url_as("app", "secret");
    NatsTransport::open(&url).unwrap().create().await.unwrap();
    let (outbox, builder) = outbox(&pool).await;
    changes(&pool, &outbox, &["a".into()]).await;
    let relay = builder.tries(1).open(&url).unwrap();
    let error = relay.once().await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("permissions violation"), "{error}");
    assert_eq!((rows(&pool).await, relay.stats().refused), (1, 0));
}
