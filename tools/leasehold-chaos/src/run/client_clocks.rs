//! The wall clocks of clients.

use leasehold_test_servers::ClockShim;

use super::Order;
use crate::fault::Fault;
use crate::{Result, SECOND};

/// A clock for each client, if those are to be set.
pub(super) fn build(order: &Order) -> Result<Vec<ClockShim>> {
    if !order.kinds.contains(&Fault::ClientClock) {
        return Ok(Vec::new());
    }
    let mut clocks = vec![ClockShim::build()?];
    for number in 1..order.clients as usize {
        clocks.push(clocks[0].another(number)?);
    }
    Ok(clocks)
}

/// How far a client's clock is from the right time from now on, in seconds: near the length of leases, or far from it.
pub(super) fn offset(target: u64) -> f64 {
    let span = [5 * SECOND, 1800 * SECOND][target as usize % 2];
    (target / 2 % (2 * span)) as f64 / SECOND as f64 - span as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_set_ahead_and_back() {
        assert_eq!((offset(0), offset(20 * SECOND - 2)), (-5.0, 4.999_999_999));
        assert_eq!((offset(1), offset(1 + 2 * 3000 * SECOND)), (-1800.0, 1200.0));
    }
}
