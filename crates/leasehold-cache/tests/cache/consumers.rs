//! What an operator sees of filters, bitmaps, rows and runs: one warning at each change, the server's URL in
//! each error, a gauge, and no attempt after the other where the server refuses the password.

use std::future::ready;

use futures_util::future::BoxFuture;
use leasehold_cache::{Error, Result};
use leasehold_conformance as conformance;
use leasehold_filters::bitmap;
use leasehold_filters::bloom::{self, Rotating};
use leasehold_once::{Begun, RunOnce, SaveOnceBuilder, Store, StoreError};
use leasehold_test_servers::{RedisServer, RedisSettings};
use tokio::time::Instant;

use super::logs::{listen, warnings};
use super::recorded::recorded;
use super::{Test, quiet, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_password_file_is_read_and_a_missing_password_is_named),
    test!(a_refused_password_is_not_tried_again_and_again),
    test!(a_lost_server_is_one_warning_for_each_user_and_so_is_its_return),
    test!(the_breaker_of_each_user_has_a_gauge),
];

/// A consumer of Redis, by the field that names it in warnings, and a call of it.
struct Consumer {
    field: String,
    call: Box<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>,
}

impl Consumer {
    fn new<F: Future<Output = Result<()>> + Send + 'static>(
        field: &str,
        call: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self { field: field.to_owned(), call: Box::new(move || Box::pin(call())) }
    }

    /// Warnings of it with this text.
    fn warned(&self, part: &str) -> Vec<String> {
        let mut seen = warnings(&self.field);
        seen.retain(|text| text.contains(part));
        seen
    }

    /// Asks until a warning has this text.
    async fn until_warned(&self, part: &str) {
        conformance::until(&format!("{}: {part}", self.field), async || {
            let _ = (self.call)().await;
            !self.warned(part).is_empty()
        })
        .await
        .unwrap();
    }
}

/// Takes every row.
struct Rows;

impl Store for Rows {
    type Row = ();

    fn insert(&self, _: &[(&str, &())]) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Ok(()))
    }
}

/// One of each, of this name.
async fn users(url: &str, name: &str) -> Vec<Consumer> {
    let limit = secs(10);
    let filter = bloom::Redis::builder(name, 100, 0.01).redis_limit(limit).create(true);
    let filter = filter.open(url).await.unwrap();
    let window = Rotating::builder(name, 100, 0.01, secs(3600)).redis_limit(limit);
    let window = window.open(url).await.unwrap();
    let bits = std::sync::Arc::new(bitmap::Redis::open(url, name, limit).unwrap());
    let rows = SaveOnceBuilder::new(name).redis_limit(limit).local_size(0).open(url, Rows).unwrap();
    let runs = RunOnce::builder(name).redis_limit(limit).open(url).unwrap();
    vec![
        Consumer::new(&format!("filter=\"{{leasehold-bloom:{name}}}\""), move || {
            let filter = filter.clone();
            async move { filter.add("a").await }
        }),
        Consumer::new(&format!("filter=\"{{leasehold-bloom:{name}}}:window\""), move || {
            let window = window.clone();
            async move { window.add("a").await }
        }),
        Consumer::new(&format!("bitmap=\"{{leasehold-bitmap:{name}}}\""), move || {
            let bits = bits.clone();
            async move { bits.insert(1).await.map(drop) }
        }),
        Consumer::new(&format!("save_once=\"leasehold-saved:{name}\""), move || {
            let rows = rows.clone();
            async move { rows.save("a".into(), ()).await }
        }),
        Consumer::new(&format!("run_once=\"leasehold-once:{name}\""), move || {
            let runs = runs.clone();
            async move { runs.begin::<String>("a", b"").await.map(|_: Begun<String>| ()) }
        }),
    ]
}

/// How often clients have sent a password.
fn passwords(server: &RedisServer) -> u64 {
    let sent = server.info("cmdstat_auth").unwrap();
    let calls = sent.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    calls.unwrap().parse().unwrap()
}

async fn a_password_file_is_read_and_a_missing_password_is_named() {
    let server = RedisServer::start(RedisSettings::new().password("secret-word")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "secret-word\n").unwrap();
    let place = format!("redis://127.0.0.1:{}", server.port());
    let url = format!("{place}?password-file={}", file.path().display());
    for user in users(&url, "file").await {
        (user.call)().await.unwrap();
    }
    let runs = RunOnce::builder("none").open(&place).unwrap();
    let refused = runs.begin::<String>("a", b"").await.unwrap_err().to_string();
    let cache = quiet().open(&place).unwrap();
    let unseen = cache.invalidate(&["k"]).await.unwrap_err().to_string();
    for text in [refused, unseen] {
        assert!(text.contains("requires a password") && text.contains("password-file"), "{text}");
    }
}

async fn a_refused_password_is_not_tried_again_and_again() {
    listen();
    let settings = RedisSettings::new().user("app", "on >secret-word ~* &* +@all");
    let server = RedisServer::start(settings).unwrap();
    let all = users(&server.url_as("app", "secret-word"), "refused").await;
    for user in &all {
        (user.call)().await.unwrap();
    }
    server.admin(&["ACL", "SETUSER", "app", "resetpass", ">another"]).unwrap();
    server.admin(&["CLIENT", "KILL", "USER", "app"]).unwrap();
    let place = format!("redis://app:***@127.0.0.1:{}", server.port());
    for user in &all {
        let (before, begun) = (passwords(&server), Instant::now());
        let mut errors = Vec::new();
        for _ in 0..300 {
            errors.extend((user.call)().await.err().as_ref().map(Error::to_string));
        }
        // Three that open the breaker; then it lets one call through each half second, and the
        // connections of all look at the server once a second.
        let seconds = begun.elapsed().as_secs() + 1;
        let (sent, most) = (passwords(&server) - before, 3 + seconds * (2 + all.len() as u64));
        assert!(sent <= most, "{}: {sent} times in {seconds} s", user.field);
        user.until_warned("cannot be used").await;
        let seen = user.warned("cannot be used");
        assert_eq!(seen.len(), 1, "{seen:?}");
        // Rows are saved all the same.
        assert!(user.field.starts_with("save_once") || errors.len() == 300, "{}", user.field);
        assert!(seen[0].contains("wrong user or password"), "{seen:?}");
        for text in errors.iter().chain(&seen) {
            assert!(text.contains(&place) && !text.contains("secret-word"), "{text}");
        }
    }
    server.admin(&["ACL", "SETUSER", "app", ">secret-word"]).unwrap();
    for user in &all {
        user.until_warned("answers again").await;
        (user.call)().await.unwrap();
        assert_eq!(user.warned("").len(), 2, "{:?}", user.warned(""));
    }
}

async fn a_lost_server_is_one_warning_for_each_user_and_so_is_its_return() {
    listen();
    let mut server = server();
    let all = users(&server.url(), "lost").await;
    for user in &all {
        (user.call)().await.unwrap();
        assert_eq!(user.warned(""), Vec::<String>::new());
    }
    server.kill();
    for user in &all {
        user.until_warned("cannot be used").await;
        for _ in 0..20 {
            if let Err(error) = (user.call)().await {
                assert!(error.to_string().contains(&server.url()), "{error}");
            }
        }
        let seen = user.warned("");
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].contains(&server.url()), "{seen:?}");
    }
    server.restart().unwrap();
    for user in &all {
        user.until_warned("answers again").await;
        for part in ["cannot be used", "answers again"] {
            assert_eq!(user.warned(part).len(), 1, "{:?}", user.warned(""));
        }
    }
}

async fn the_breaker_of_each_user_has_a_gauge() {
    listen();
    for (is_down, name) in [(false, "gauge-up"), (true, "gauge-down")] {
        let users = recorded(async move || {
            let mut server = server();
            let all = users(&server.url(), name).await;
            if is_down {
                server.kill();
            }
            for user in &all {
                match is_down {
                    true => user.until_warned("cannot be used").await,
                    false => (user.call)().await.unwrap(),
                }
            }
            all.into_iter().map(|user| user.field).collect::<Vec<_>>()
        });
        let (gauges, fields) = users.await;
        let gauge = |field| format!("leasehold_cache_breaker_open{{{field}}}");
        let value = f64::from(u8::from(is_down));
        assert_eq!(gauges, fields.into_iter().map(|field| (gauge(field), value)).collect());
    }
}
