//! Tests of the size of what each call allocates.

use std::sync::Arc;

use leasehold_core::backend::Origin;
use leasehold_core::clock::ManualClock;
use tokio::sync::{mpsc, watch};

use super::*;
use crate::link::Link;
use crate::script::Scripts;
use crate::supervisor::Line;

/// An allocator serves sizes up to about this from a cache of the thread.
const AT_MOST: usize = 1024;

#[tokio::test]
async fn the_future_of_a_call_is_small() {
    let (clock, keys) = (ManualClock::new().clock(), Keys::new("leasehold"));
    let (_line, line) = watch::channel(Line::Down(None));
    let (orders, _received) = mpsc::unbounded_channel();
    let link = Link::new(line, orders, Arc::new(Scripts::new()), keys.clone(), clock.clone());
    let backend = RedisBackend::new(Route::One(link, None), true, None, keys, String::new(), clock);
    let ask = Ask {
        name: Name::new("a").unwrap(),
        attempt: AttemptId::new(ClientId::from_bits(1), 1, 0),
        mode: Mode::Exclusive,
        ttl: Duration::from_secs(30),
        wait: true,
        fair: true,
        tokens: 1,
        origin: Arc::new(Origin::new("host", 1, None)),
    };
    let end = End {
        name: ask.name.clone(),
        attempt: ask.attempt,
        base: None,
        last: None,
        suspect: false,
        keep: None,
        then: None,
    };
    let sizes = [size_of_val(&backend.ask(ask)), size_of_val(&backend.end(end))];
    assert!(sizes.iter().all(|&size| size <= AT_MOST), "acquire and release take {sizes:?} bytes");
}
