//! Filters in front of the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_cache::bloom::{self, Answer};
use leasehold_cache::{Cache, Filter};
use leasehold_conformance as conformance;

use super::{Test, quiet, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(keys_that_cannot_exist_cost_nothing),
    test!(a_filter_that_cannot_be_asked_changes_nothing),
];

/// What a `get` answers, and the loads so far.
async fn get(cache: &Cache<str, u64>, key: &str, loads: &Arc<AtomicU64>) -> Option<u64> {
    let loads = loads.clone();
    let load = move |_| async move {
        loads.fetch_add(1, Ordering::SeqCst);
        Ok::<_, String>(Some(1))
    };
    cache.get(key, load).await.unwrap()
}

async fn keys_that_cannot_exist_cost_nothing() {
    let server = server();
    let loads = Arc::new(AtomicU64::new(0));
    let own = Filter::per_process(100, 0.000_1, |filter| async move {
        filter.add("user/1");
        Ok::<_, String>(())
    });
    let shared = bloom::Redis::builder("keys", 100, 0.000_1).redis_limit(secs(10));
    let shared = shared.create(true).open(&server.url()).await.unwrap();
    shared.add("user/1").await.unwrap();
    let filters = [(own.unwrap(), 0), (Filter::from(shared), 1)];
    for (filter, asked) in filters {
        let builder = quiet().filter(filter).only_keys(|key| key.starts_with("user/"));
        let cache = builder.local_size(10).open(&server.url()).unwrap();
        conformance::until("the filter is loaded", async || {
            let before = cache.stats().filtered;
            // Another each time: what is loaded before is kept.
            get(&cache, &format!("user/1{}", loads.load(Ordering::SeqCst)), &loads).await;
            cache.stats().filtered > before
        })
        .await
        .unwrap();
        let (malformed, filtered) = (cache.stats().malformed, cache.stats().filtered);
        let commands = || {
            let figure = server.info("cmdstat_get").unwrap_or_default();
            let script = server.info("cmdstat_evalsha").unwrap_or_default();
            let fields = server.info("cmdstat_bitfield_ro").unwrap_or_default();
            let calls = |stats: String| {
                stats.split(['=', ',']).nth(1).and_then(|calls| calls.parse::<u64>().ok())
            };
            let [gets, scripts, fields] = [figure, script, fields].map(|s| calls(s).unwrap_or(0));
            (gets + scripts, fields)
        };
        let before = commands();
        loads.store(0, Ordering::SeqCst);
        for _ in 0..10 {
            assert_eq!(get(&cache, "nonsense", &loads).await, None);
            assert_eq!(get(&cache, "user/2", &loads).await, None);
        }
        let load = |_, _| async { Err::<Vec<Option<u64>>, _>("no loader may run") };
        assert_eq!(cache.get_many(&["user/3", "x"], load).await.unwrap(), [None, None]);
        let after = commands();
        assert_eq!((after.0 - before.0, after.1 - before.1), (0, 11 * asked));
        assert_eq!(loads.load(Ordering::SeqCst), 0);
        let stats = cache.stats();
        assert_eq!((stats.malformed - malformed, stats.filtered - filtered), (11, 11));
        assert_eq!(get(&cache, "user/1", &loads).await, Some(1));
        cache.invalidate(&["user/1"]).await.unwrap();
    }
}

async fn a_filter_that_cannot_be_asked_changes_nothing() {
    let (server, loads) = (server(), Arc::default());
    let cache = quiet().filter(Filter::by(|_| Answer::Unavailable)).open(&server.url()).unwrap();
    assert_eq!(get(&cache, "a", &loads).await, Some(1));
    assert_eq!((cache.stats().filter_unavailable, cache.stats().filtered), (1, 0));
}
