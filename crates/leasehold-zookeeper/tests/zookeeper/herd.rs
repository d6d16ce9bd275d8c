//! A thousand who wait for one lock: a release wakes one of them.

use leasehold_core::backend::{Answer, End, Event};

use crate::{Raw, Test, plain, test};

pub(crate) const TESTS: &[Test] = &[test!(a_release_wakes_one_of_a_thousand)];

const SESSIONS: u64 = 10;
const EACH: usize = 100;

async fn a_release_wakes_one_of_a_thousand() {
    let server = plain();
    let url = server.url() + "?session=60s";
    let mut holder = Raw::connect(&url, 99).await;
    let mut held = holder.ask("a");
    let Answer::Granted(_) = holder.backend.acquire(held.clone()).await.unwrap() else {
        panic!("not granted");
    };
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        sessions.push(Raw::connect(&url, number).await);
    }
    let mut line = Vec::new();
    for place in 0..EACH * SESSIONS as usize {
        let session = &mut sessions[place % SESSIONS as usize];
        let ask = session.ask("a");
        let answer = session.backend.acquire(ask.clone()).await.unwrap();
        let Answer::Queued { place: Some(at), .. } = answer else { panic!("{answer:?}") };
        assert_eq!(at as usize, place);
        line.push(ask);
    }
    assert_eq!(server.number("zk_watch_count").unwrap() as usize, line.len(), "one watch each");
    let fired = || server.number("zk_sum_node_deleted_watch_count").unwrap() as u64;
    // Those who wait ask again now and then: that costs the server nothing.
    let before = server.number("zk_packets_received").unwrap();
    for (place, ask) in line.iter().enumerate() {
        let session = &sessions[place % SESSIONS as usize];
        let answer = session.backend.acquire(ask.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
    }
    let asked = server.number("zk_packets_received").unwrap() - before;
    assert!(asked < 100.0, "{asked} requests while everybody waited");
    let mut owner = holder;
    for (place, ask) in line.iter().take(20).enumerate() {
        let (fired_before, before) = (fired(), server.number("zk_packets_received").unwrap());
        let base = None;
        let end = End {
            name: held.name.clone(),
            attempt: held.attempt,
            base,
            last: None,
            suspect: false,
            keep: None,
            then: None,
        };
        owner.backend.release(end).await.unwrap();
        let session = &mut sessions[place % SESSIONS as usize];
        match session.events.recv().await {
            Some(Event::Next { attempt, .. }) => assert_eq!(attempt, ask.attempt),
            other => panic!("{other:?}"),
        }
        let answer = session.backend.acquire(ask.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
        assert_eq!(fired() - fired_before, 1, "watches fired by one release");
        // A removal and a look, perhaps a transaction that verifies the session; and pings.
        let requests = server.number("zk_packets_received").unwrap() - before;
        assert!(requests < 30.0, "{requests} requests for one hand-off");
        held = ask.clone();
        owner = Raw {
            backend: session.backend.clone(),
            events: tokio::sync::mpsc::unbounded_channel().1,
            ..*session
        };
    }
    for session in &mut sessions {
        assert!(session.events.try_recv().is_err(), "somebody else was woken");
    }
}
