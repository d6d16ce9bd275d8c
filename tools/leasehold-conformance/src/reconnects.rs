//! How often a client connects to something that breaks each of its connections.

use std::time::Duration;

use leasehold_core::Deadline;
use leasehold_core::clock::Clock;
use leasehold_test_servers::Proxy;

/// Kills all connections of a proxy whenever `progress` grows, for `time`, and counts those that were
/// made meanwhile.
pub async fn reconnects(proxy: &Proxy, time: Duration, progress: impl Fn() -> u64) -> u64 {
    let (clock, made) = (Clock::system(), proxy.connections_made());
    let end = Deadline::after(clock.now(), time);
    let mut before = progress();
    proxy.kill_connections();
    while !end.has_passed(clock.now()) {
        clock.sleep(Duration::from_millis(1)).await;
        let now = progress();
        if now > before {
            before = now;
            proxy.kill_connections();
        }
    }
    proxy.connections_made() - made
}
