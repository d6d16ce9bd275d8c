//! The NATS server: it answers, keeps its streams over a kill, and counts its users.

use leasehold_test_servers::{NatsServer, NatsSettings};
use serde_json::json;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("nats::a_stream_outlives_its_server", a_stream_outlives_its_server),
    ("nats::without_jetstream_nobody_listens", without_jetstream_nobody_listens),
    ("nats::users_count", users_count),
];

fn a_stream_outlives_its_server() {
    let mut server = NatsServer::start(NatsSettings::new()).unwrap();
    let config = json!({"name": "kept", "subjects": ["kept.>"], "storage": "file"});
    server.request("$JS.API.STREAM.CREATE.kept", &config).unwrap();
    assert_eq!(server.request("kept.a", &json!("body")).unwrap()["seq"], 1);
    let pid = server.pid();
    server.kill();
    assert!(server.request("kept.a", &json!("body")).is_err());
    server.start_again().unwrap();
    assert_ne!(server.pid(), pid);
    assert_eq!(server.request("kept.a", &json!("body")).unwrap()["seq"], 2);
    let error = server.request("$JS.API.STREAM.INFO.other", &json!({})).unwrap_err();
    assert!(error.to_string().contains("stream not found"), "{error}");
}

fn without_jetstream_nobody_listens() {
    let server = NatsServer::start(NatsSettings::new().no_jetstream()).unwrap();
    let error = server.request("$JS.API.INFO", &json!({})).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
}

fn users_count() {
    let settings = NatsSettings::new().user("app", "secret");
    let server = NatsServer::start(settings).unwrap();
    // The kit is a user then.
    server.request("$JS.API.INFO", &json!({})).unwrap();
    let port = server.port();
    assert_eq!(server.url_as("app", "secret"), format!("nats://app:secret@127.0.0.1:{port}"));
}
