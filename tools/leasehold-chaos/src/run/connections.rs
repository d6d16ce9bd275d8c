//! How fast clients connect again.

use crate::cluster::Cluster;
use crate::{SECOND, now};

/// A client makes no more connections to a server in a second: it pauses 20 ms after the first one that fails, and longer
/// after the next ones.
const MOST: u64 = 40;

/// The connections that are made in each second.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Those so far, and when they were counted.
    made: u64,
    since: u64,
    /// The most of a second.
    pub(super) busiest: u64,
}

impl Connections {
    /// Counts once a second; a longer time counts for its part.
    pub(super) fn look(&mut self, cluster: &Cluster) {
        let time = now();
        if time < self.since + SECOND {
            return;
        }
        let made = cluster.nodes.iter().map(|node| node.connections_made()).sum();
        if self.since > 0 {
            let in_second = (made - self.made) * SECOND / (time - self.since);
            self.busiest = self.busiest.max(in_second);
        }
        (self.made, self.since) = (made, time);
    }

    /// In words, if clients connect again and again without a pause.
    pub(super) fn wrong(&self, clients: usize, servers: usize) -> Option<String> {
        let most = MOST * clients as u64 * servers as u64;
        let busiest = self.busiest;
        (busiest > most).then(|| format!("{busiest} connections were made in a second, not {most}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_connect_without_a_pause_are_found() {
        let of = |busiest| Connections { busiest, ..Connections::default() };
        assert_eq!((of(720).wrong(6, 3), of(721).wrong(6, 3).is_some()), (None, true));
    }
}
