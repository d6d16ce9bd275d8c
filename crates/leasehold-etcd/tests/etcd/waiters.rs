//! A thousand who wait: a release wakes one.

use leasehold_core::backend::{Answer, Ask, Backend, End, Event, EventSink};
use leasehold_core::{ClientId, StoreUrl};

use crate::{Test, ask, secs, server, test};

pub(crate) const TESTS: &[Test] = &[test!(a_release_wakes_one_of_a_thousand)];

const CLIENTS: usize = 10;
const WAITERS: usize = 1_000;
const TURNS: usize = 20;

async fn a_release_wakes_one_of_a_thousand() {
    let server = server();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let url = StoreUrl::parse(&server.url()).unwrap();
        let backend = leasehold_etcd::connect(url).await.unwrap();
        let (sink, events) = EventSink::channel();
        backend.attach(ClientId::from_bits(number as u64), sink);
        clients.push((backend, events));
    }
    // So long that nobody has to ask again meanwhile.
    let line: Vec<Ask> = (0..=WAITERS)
        .map(|place| ask("a", (place % CLIENTS) as u64, place as u32, secs(3_600)))
        .collect();
    let mut token = None;
    for (place, ask) in line.iter().enumerate() {
        match clients[place % CLIENTS].0.acquire(ask.clone()).await.unwrap() {
            Answer::Granted(grant) if place == 0 => token = Some(grant.tokens.base()),
            Answer::Queued { place: Some(before), .. } => assert_eq!(before as usize, place - 1),
            other => panic!("{other:?}"),
        }
    }
    let count = || {
        let method = |metric: &str, method: &str| {
            server.metric_of(metric, &format!("grpc_method=\"{method}\"")).unwrap()
        };
        [
            server.metric("etcd_debugging_mvcc_events_total").unwrap(),
            method("grpc_server_handled_total", "Txn"),
            method("grpc_server_msg_received_total", "LeaseKeepAlive"),
        ]
    };
    let before = count();
    for turn in 0..TURNS {
        let Ask { name, attempt, .. } = line[turn].clone();
        let (base, last, keep, then) = (token, None, None, None);
        let end = End { name, attempt, base, last, suspect: false, keep, then };
        clients[turn % CLIENTS].0.release(end).await.unwrap();
        let next = turn + 1;
        let (backend, events) = &mut clients[next % CLIENTS];
        let told = events.recv().await;
        assert!(matches!(told, Some(Event::Freed { .. })), "{told:?}");
        let answer = backend.acquire(line[next].clone()).await.unwrap();
        let Answer::Granted(grant) = answer else { panic!("{answer:?}") };
        assert!(Some(grant.tokens.base()) > token);
        token = Some(grant.tokens.base());
    }
    let after = count();
    let each = |place: usize| (after[place] - before[place]) / TURNS as f64;
    let (events, requests, kept) = (each(0), each(1), each(2));
    println!("a hand-off: {events} events, {requests} transactions, {kept} keep-alives");
    for (_, events) in &mut clients {
        assert!(events.try_recv().is_err(), "two were woken");
    }
    assert!(events <= 1.5, "{events} events for one release");
    // The release, and the look of the one that it wakes.
    assert!(requests <= 2.5, "{requests} requests");
    assert!(kept <= 1.5, "{kept} keep-alives");
}
