//! A message is sent when its receiver does not know yet what it says.

use leasehold_core::backend::{AcquireRequest, Answer, Mode};
use leasehold_core::proto::semaphore::Demand;
use leasehold_test_servers::{RedisServer, Value};

use crate::side::{Side, unheard};
use crate::{Test, calls_of, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(readers_learn_once_that_a_writer_waits_and_again_when_it_repeats_its_request),
    test!(the_holder_learns_from_the_first_waiter_that_others_wait),
    test!(the_first_waiter_for_a_permit_learns_its_time_once),
    test!(keys_of_readers_expire_with_the_record),
];

fn messages(server: &RedisServer) -> u64 {
    calls_of(server, "publish")
}

fn reads(side: &mut Side) -> AcquireRequest {
    side.request(secs(30)).with_mode(Mode::Shared).with_tokens(1)
}

async fn readers_learn_once_that_a_writer_waits_and_again_when_it_repeats_its_request() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    for _ in 0..3 {
        let request = reads(&mut side);
        side.granted(&request).await;
    }
    let (first, second, reader) =
        (side.request(secs(30)), side.request(secs(30)), reads(&mut side));
    for (request, sent) in [(&first, 3), (&second, 0), (&reader, 0), (&second, 0), (&first, 3)] {
        let before = messages(&server);
        side.queued(request).await;
        assert_eq!(messages(&server) - before, sent, "{request:?}");
    }
}

async fn the_holder_learns_from_the_first_waiter_that_others_wait() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let holder = side.request(secs(30));
    side.granted(&holder).await;
    let (first, second) = (side.request(secs(30)), side.request(secs(30)));
    for (request, sent) in [(&first, 1), (&second, 0), (&second, 0), (&first, 1)] {
        let before = messages(&server);
        side.queued(request).await;
        assert_eq!(messages(&server) - before, sent, "{request:?}");
    }
}

async fn the_first_waiter_for_a_permit_learns_its_time_once() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let demand = Demand::new(1, 1).unwrap();
    let mut request = || side.request(secs(30)).with_tokens(1).with_demand(demand);
    let (holder, waiters) = (request(), [request(), request(), request()]);
    let Answer::Permit { grant, slots } = side.acquire(&holder).await else {
        panic!("no permit");
    };
    for waiter in waiters.iter().chain(&waiters) {
        let before = messages(&server);
        side.queued(waiter).await;
        assert_eq!(messages(&server) - before, 0, "{waiter:?}");
    }
    let before = messages(&server);
    let base = grant.tokens.base();
    let ends = unheard(&holder).with_base(base).with_last(base).with_slot(slots[0]);
    side.release(&ends).await.unwrap();
    assert_eq!(messages(&server) - before, 2, "a permit, and the time to the next waiter");
    // The new first waiter leaves: the one behind it learns when the permit ends.
    let before = messages(&server);
    side.release(&unheard(&waiters[1]).with_slot(None)).await.unwrap();
    assert_eq!(messages(&server) - before, 1);
}

/// The lives of all keys of lock `a`, in ms; -1 is for ever.
fn lives(server: &RedisServer) -> Vec<i64> {
    let Value::Array(keys) = server.admin(&["KEYS", "leasehold:{a}*"]).unwrap() else {
        panic!("no list of keys");
    };
    let life = |key: &Value| match server.admin(&["PTTL", &key.text()]).unwrap() {
        Value::Integer(ms) => ms,
        other => panic!("{other:?}"),
    };
    keys.iter().map(life).collect()
}

/// The keys of a lock outlive its last lease by 35 minutes, as its record does.
fn all_live_on(server: &RedisServer) {
    let lives = lives(server);
    assert!(lives.iter().all(|ms| *ms > 2_100_000), "{lives:?}");
}

async fn keys_of_readers_expire_with_the_record() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let mut requests = Vec::new();
    for _ in 0..3 {
        let request = reads(&mut side);
        let grant = side.granted(&request).await;
        requests.push((request, grant));
    }
    let writers = [side.request(secs(30)), side.request(secs(30))];
    let reader = reads(&mut side);
    for waiter in [&writers[0], &reader, &writers[1]] {
        side.queued(waiter).await;
        all_live_on(&server);
    }
    // One after the other leaves, until the first writer has the lock, and then the reader.
    for (request, grant) in &requests {
        let base = grant.tokens.base();
        side.release(&unheard(request).with_base(base).with_last(base)).await.unwrap();
        all_live_on(&server);
    }
    for waiter in [&writers[0], &reader] {
        let grant = side.granted(waiter).await;
        all_live_on(&server);
        let base = grant.tokens.base();
        side.release(&unheard(waiter).with_base(base).with_last(base)).await.unwrap();
    }
}
