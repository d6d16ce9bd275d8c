//! Tests of the size of what each call allocates.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::ManualClock;
use tokio::sync::{mpsc, watch};

use super::*;
use crate::batcher::Batcher;
use crate::sample_requests::request;
use crate::script::Scripts;
use crate::supervisor::ConnectionState;

/// An allocator serves sizes up to about this from a cache of the thread.
const AT_MOST: usize = 1024;

#[tokio::test]
async fn the_future_of_a_call_is_small_and_needs_no_timer() {
    let (clock, keys) = (ManualClock::new().clock(), Keys::new("leasehold"));
    let (_sender, state) = watch::channel(ConnectionState::Down(None));
    let (orders, _received) = mpsc::unbounded_channel();
    let link = Batcher::new(
        state,
        orders,
        Arc::new(Scripts::new(crate::retain::RETAIN)),
        keys.clone(),
        clock.clone(),
    );
    let backend = RedisBackend::new(Route::One(link, None), true, None, keys, String::new(), clock);
    // With the default patience, the client then needs no timer for a call.
    assert_eq!(backend.capability().answers_within, Some(Duration::from_secs(10)));
    let request = request(1);
    let release = ReleaseRequest::new(request.name.clone(), request.attempt);
    let sizes = [size_of_val(&backend.ask(request)), size_of_val(&backend.end(release))];
    assert!(sizes.iter().all(|&size| size <= AT_MOST), "acquire and release take {sizes:?} bytes");
}
