//! Many who want the same value at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_cache::{Cache, ErrorKind};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{Test, ms, open, quiet, secs, server, test, until};

pub(crate) const TESTS: &[Test] = &[
    test!(one_load_for_sixteen_caches_of_sixty_four_tasks),
    test!(a_loader_that_is_killed_costs_one_lease),
    test!(a_loader_that_panics_gives_its_lease_back),
    test!(readers_of_a_cold_key_outlive_a_killed_loader_with_the_defaults),
    test!(a_loader_that_fails_lets_the_next_try),
    test!(loads_are_bounded),
    test!(who_waits_is_woken_by_the_fill),
];

const K: &str = "hot";

async fn ask(cache: &Cache<str, u64>, loads: &Arc<AtomicU64>, pause: std::time::Duration) -> u64 {
    let loads = loads.clone();
    let load = move |_| async move {
        let number = loads.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(pause).await;
        Ok::<_, String>(Some(number))
    };
    cache.get(K, load).await.unwrap().unwrap()
}

async fn one_load_for_sixteen_caches_of_sixty_four_tasks() {
    let (server, loads) = (server(), Arc::new(AtomicU64::new(0)));
    let caches: Vec<_> = (0..16).map(|_| open(&server)).collect();
    let mut tasks = JoinSet::new();
    for cache in &caches {
        for _ in 0..64 {
            let (cache, loads) = (cache.clone(), loads.clone());
            tasks.spawn(async move { ask(&cache, &loads, ms(100)).await });
        }
    }
    assert!(tasks.join_all().await.into_iter().all(|value| value == 1));
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

/// Begins a load on a runtime of its own, which then ends as a killed process does: nothing is given
/// back.
fn kill_while_loading(cache: impl FnOnce() -> Cache<str, u64> + Send + 'static) {
    let killed = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (cache, (began, loading)) = (cache(), oneshot::channel());
            let load = |_| async move {
                began.send(()).unwrap();
                std::future::pending::<Result<_, String>>().await
            };
            let reading = tokio::spawn(async move { cache.get(K, load).await });
            loading.await.unwrap();
            drop(reading);
        });
        runtime.shutdown_background();
    });
    killed.join().unwrap();
}

async fn a_loader_that_is_killed_costs_one_lease() {
    let (server, loads) = (server(), Arc::new(AtomicU64::new(0)));
    let url = server.url();
    kill_while_loading(move || quiet().lease(ms(300)).open(&url).unwrap());
    let other = open(&server);
    assert_eq!(ask(&other, &loads, ms(0)).await, 1, "once its lease has passed");
}

async fn a_loader_that_panics_gives_its_lease_back() {
    let (server, loads) = (server(), Arc::new(AtomicU64::new(0)));
    // Longer than the test may take.
    let panics = quiet().lease(secs(3600)).hard_limit(secs(7200)).open(&server.url()).unwrap();
    let mut readers = JoinSet::new();
    for _ in 0..50 {
        let panics = panics.clone();
        readers.spawn(async move {
            let load = |_| async { panic!("a bug in the loader") as Result<_, String> };
            panics.get(K, load).await.unwrap_err()
        });
    }
    for error in readers.join_all().await {
        assert_eq!(error.kind(), ErrorKind::Load, "{error}");
        assert!(error.to_string().contains("panicked: a bug in the loader"), "{error}");
    }
    assert_eq!(ask(&open(&server), &loads, ms(0)).await, 1, "another process loads at once");

    // A loader may panic before it returns a future.
    server.admin(&["FLUSHALL"]).unwrap();
    let error = panics.get(K, |_| -> std::future::Ready<Result<_, String>> { panic!("no future") });
    assert!(error.await.unwrap_err().to_string().contains("panicked: no future"));
    let error = panics
        .get_many(&[K], |_, _| -> std::future::Ready<Result<_, String>> { panic!("no future") });
    assert!(error.await.unwrap_err().to_string().contains("panicked: no future"));
    let load = |_, _| async { panic!("a bug in the loader") as Result<_, String> };
    let error = panics.get_many(&[K, "another"], load).await.unwrap_err();
    assert!(error.to_string().contains("panicked: a bug in the loader"), "{error}");
    assert_eq!(ask(&open(&server), &loads, ms(0)).await, 2, "another process loads at once");
}

async fn readers_of_a_cold_key_outlive_a_killed_loader_with_the_defaults() {
    let (server, loads) = (server(), Arc::new(AtomicU64::new(0)));
    let url = server.url();
    let open = move || Cache::<str, u64>::builder("test").open(&url).unwrap();
    kill_while_loading(open.clone());
    let cache = open();
    let mut readers = JoinSet::new();
    for _ in 0..50 {
        let (cache, loads) = (cache.clone(), loads.clone());
        readers.spawn(async move { ask(&cache, &loads, ms(10)).await });
    }
    assert!(readers.join_all().await.into_iter().all(|value| value == 1));
}

async fn a_loader_that_fails_lets_the_next_try() {
    let (server, loads) = (server(), Arc::new(AtomicU64::new(0)));
    let cache = quiet().lease(secs(3600)).hard_limit(secs(7200)).open(&server.url()).unwrap();
    let failed = cache.get(K, |_| async { Err("the database is down") }).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Load);
    assert!(failed.to_string().contains("the database is down"), "{failed}");
    assert_eq!(ask(&open(&server), &loads, ms(0)).await, 1);
    assert_eq!(cache.stats().failed_loads, 1);
}

async fn loads_are_bounded() {
    let server = server();
    let cache = quiet().max_loads(3).open(&server.url()).unwrap();
    let (now, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for key in 0..40 {
        let (cache, now, most) = (cache.clone(), now.clone(), most.clone());
        tasks.spawn(async move {
            let load = move |_| async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                until("as many as may load", || most.load(Ordering::SeqCst) >= 3).await;
                tokio::time::sleep(ms(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, String>(Some(key))
            };
            assert_eq!(cache.get(&format!("key {key}"), load).await.unwrap(), Some(key));
        });
    }
    tasks.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);

    // A caller that would have to wait too long gets an error.
    let tight =
        quiet().max_loads(1).hard_limit(secs(5)).stale_for(ms(0)).open(&server.url()).unwrap();
    let stuck = tight.clone();
    let (loads, loading) = oneshot::channel();
    let holds = tokio::spawn(async move {
        let load = |_| async move {
            loads.send(()).unwrap();
            std::future::pending::<Result<_, String>>().await
        };
        stuck.get("stuck", load).await
    });
    loading.await.unwrap();
    let late = tight.get("other", |_| async { Ok::<_, String>(Some(1)) }).await.unwrap_err();
    assert!(matches!(late.kind(), ErrorKind::Overloaded | ErrorKind::Timeout), "{late:?}");
    assert_eq!(holds.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
}

async fn who_waits_is_woken_by_the_fill() {
    let (server, loads) = (server(), Arc::new(AtomicU64::new(0)));
    // With a level in the process, which says whether messages are heard.
    let caches: Vec<_> =
        (0..2).map(|_| quiet().local_size(10).open(&server.url()).unwrap()).collect();
    for (round, key) in ["a", "b", "c"].into_iter().enumerate() {
        let both = caches.iter().map(|cache| {
            let loads = loads.clone();
            let load = move |_| async move {
                loads.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(ms(60)).await;
                Ok::<_, String>(Some(round as u64))
            };
            cache.get(key, load)
        });
        for value in futures_util::future::join_all(both).await {
            assert_eq!(value.unwrap(), Some(round as u64));
        }
    }
    assert_eq!(loads.load(Ordering::SeqCst), 3);
}
