//! Ensembles whose servers go.

use leasehold_conformance::until;
use leasehold_core::{Deadline, ErrorKind, Token};
use leasehold_test_servers::{ZooKeeperEnsemble, ZooKeeperSettings};

use crate::{Test, connect, free, ms, secs, test, try_connect, waiting};

pub(crate) const TESTS: &[Test] = &[
    test!(the_line_goes_on_when_the_leader_is_killed),
    test!(a_server_that_hangs_loses_nobody_a_lock),
    test!(without_a_majority_nobody_holds_and_it_is_said_why),
];

async fn the_line_goes_on_when_the_leader_is_killed() {
    let mut ensemble = ZooKeeperEnsemble::start(3, &ZooKeeperSettings::new()).unwrap();
    let url = ensemble.url() + "?session=20s";
    let (one, two, three) = (connect(&url).await, connect(&url).await, connect(&url).await);
    let guard = one.lock("a").acquire().await.unwrap();
    let mut last = guard.token();
    let before = epoch(last);
    let waiters: Vec<_> = [&two, &three]
        .map(|client| {
            let lock = client.lock("a");
            tokio::spawn(async move {
                let guard = lock.acquire_within(secs(90)).await?;
                let token = guard.token();
                guard.release().await.map(|()| token)
            })
        })
        .into();
    waiting(&one, "a", 2).await;
    let leader = ensemble.leader().unwrap();
    ensemble.servers[leader].kill();
    ensemble.leader().unwrap();
    // Its lease may have ended meanwhile, on a slow machine; then it says so.
    match (guard.is_valid(), guard.release().await) {
        (_, Ok(())) => {}
        (valid, Err(error)) => {
            let known = matches!(error.kind(), ErrorKind::Lost | ErrorKind::Unavailable);
            assert!(known, "{valid} {error}");
        }
    }
    let mut tokens = Vec::new();
    for waiter in waiters {
        tokens.push(waiter.await.unwrap().unwrap());
    }
    tokens.sort_unstable();
    for token in tokens {
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    // Tokens count on in another epoch after an election.
    let next = one.lock("a").acquire_within(secs(60)).await.unwrap();
    assert!(next.token() > last && epoch(next.token()) > before);
    next.release().await.unwrap();
    ensemble.servers[leader].start_again().unwrap();
    free(&two, "a").await;
}

async fn a_server_that_hangs_loses_nobody_a_lock() {
    let ensemble = ZooKeeperEnsemble::start(3, &ZooKeeperSettings::new()).unwrap();
    let leader = ensemble.leader().unwrap();
    let followers: Vec<_> = (0..3).filter(|at| *at != leader).collect();
    let places: Vec<String> =
        followers.iter().map(|at| ensemble.servers[*at].address().to_string()).collect();
    // A third of the lease is for the other to be found and asked.
    let url = format!("zookeeper://{}?session=20s", places.join(","));
    let client = connect(&url).await;
    let guard = client.lock("a").acquire().await.unwrap();
    let ours = |at: &&usize| ensemble.servers[**at].ask("cons").unwrap().contains("sid=");
    let (hangs, other) = match ours(&&followers[0]) {
        true => (followers[0], followers[1]),
        false => (followers[1], followers[0]),
    };
    let hangs = &ensemble.servers[hangs];
    let clock = leasehold_core::clock::Clock::system();
    hangs.stop().unwrap();
    let session_ends = Deadline::after(clock.now(), secs(20));
    until("the session goes on at the other", || async { ours(&&other) }).await.unwrap();
    // Longer than its session would last without another server.
    while guard.deadline().is_none_or(|at| at.steady_ns() <= session_ends.steady_ns()) {
        assert!(guard.is_valid(), "lost with two healthy servers beside");
        clock.sleep(ms(5)).await;
    }
    guard.release().await.unwrap();
    // Whichever of the two is asked first.
    for _ in 0..4 {
        try_connect(&url).await.unwrap();
    }
    hangs.resume().unwrap();
}

fn epoch(token: Token) -> u64 {
    token.get() >> 32
}

async fn without_a_majority_nobody_holds_and_it_is_said_why() {
    let mut ensemble = ZooKeeperEnsemble::start(3, &ZooKeeperSettings::new()).unwrap();
    let url = ensemble.url() + "?session=6s";
    let client = connect(&url).await;
    let guard = client.lock("a").acquire().await.unwrap();
    ensemble.servers[0].kill();
    ensemble.servers[1].kill();
    guard.lost().await;
    assert!(!guard.is_valid());
    let error = client.lock("a").acquire_within(secs(3)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
    // The one that is left takes a while to miss the others.
    until("it is said why", || async {
        let error = try_connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("is the server running?"), "{error}");
        error.to_string().contains("no majority")
    })
    .await
    .unwrap();
    ensemble.servers[0].start_again().unwrap();
    client.lock("a").acquire_within(secs(90)).await.unwrap().release().await.unwrap();
}
