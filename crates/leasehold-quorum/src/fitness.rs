//! Asks nodes whether they can take part.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::quorum::majority;

use super::node::{Fitness, QuorumNode};
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Result};

/// How long to wait for a node that is asked whether it is fit.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks the nodes whether they can take part, and returns their warnings. With `grace`, slow nodes
/// get that much time after a majority has answered; otherwise [`LIMIT`].
pub(super) async fn look_at_fitness(
    nodes: &[Arc<dyn QuorumNode>],
    clock: &Clock,
    grace: Option<Duration>,
) -> Result<Vec<String>> {
    let look = |(number, node): (usize, &Arc<dyn QuorumNode>)| {
        let node = node.clone();
        async move { (number, node.fitness().await) }
    };
    let mut looks: FuturesUnordered<_> = nodes.iter().enumerate().map(look).collect();
    let mut seen = vec![Fitness::default(); nodes.len()];
    let mut until = Deadline::after(clock.now(), LIMIT);
    let mut heard = 0;
    // A node that does not answer is not a refusal: it may come back.
    while let Some(Some((number, fitness))) = clock.within(Some(until), looks.next()).await {
        heard += usize::from(fitness.refusal.is_some() || fitness.clock_ahead_ms.is_some());
        if let Some(grace) = grace.filter(|_| heard >= majority(nodes.len())) {
            until = until.min(Deadline::after(clock.now(), grace));
        }
        if let Some(slot) = seen.get_mut(number) {
            *slot = fitness;
        }
    }
    let mut warnings = Vec::new();
    for Fitness { refusal, warnings: more, .. } in seen {
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        warnings.extend(more);
    }
    Ok(warnings)
}
