//! Measuring: CPU time over a window, memory that has come to rest, medians of rounds.

use std::time::{Duration, Instant};

use crate::Result;
use crate::system::{cpu_time, cpu_time_of_all, resident, switches};

/// A window of time that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    start: Instant,
    cpu: Duration,
    servers: &'a [u32],
    server: Option<Duration>,
    switches: u64,
}

/// What there was in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) time: Duration,
    /// CPU time of the process.
    pub(crate) cpu: Duration,
    /// CPU time of the servers' processes together, if they are ours.
    pub(crate) server: Option<Duration>,
    /// Context switches of the process, if they were counted.
    pub(crate) switches: Option<u64>,
}

impl<'a> Window<'a> {
    /// Begins one now; `servers` are the processes of servers of ours.
    pub(crate) fn open(servers: &'a [u32]) -> Result<Self> {
        let server = cpu_time_of_all(servers)?;
        let switches = switches()?;
        Ok(Self { start: Instant::now(), cpu: cpu_time()?, servers, server, switches })
    }

    /// What has been spent since it began.
    pub(crate) fn spent(&self) -> Result<Spent> {
        let cpu = cpu_time()?.saturating_sub(self.cpu);
        let time = self.start.elapsed();
        let server = cpu_time_of_all(self.servers)?.zip(self.server);
        let server = server.map(|(after, before)| after.saturating_sub(before));
        let switches = Some(switches()?.saturating_sub(self.switches));
        Ok(Spent { time, cpu, server, switches })
    }
}

impl Spent {
    /// A CPU time in milliseconds for a second of the window.
    pub(crate) fn ms_per_s(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e3 / self.time.as_secs_f64()
    }
}

/// Resident memory once it stays the same for a tenth of a second; after two seconds, whatever
/// it is then.
pub(crate) async fn resident_at_rest() -> Result<u64> {
    const LOOK: Duration = Duration::from_millis(20);
    let mut last = resident()?;
    let mut same = 0;
    for _ in 0..100 {
        tokio::time::sleep(LOOK).await;
        let now = resident()?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        if same == 5 {
            break;
        }
    }
    Ok(last)
}

/// The median; of an even number of values the mean of the two in the middle, of none 0.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    }
}

/// The value at or below which this part of them is; `None` of none.
pub(crate) fn percentile(sorted: &[u64], part: f64) -> Option<u64> {
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_the_value_at_or_above() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!(
            [0.5, 0.99, 1.0].map(|part| percentile(&sorted, part)),
            [Some(100), Some(198), Some(200)]
        );
        assert_eq!((percentile(&[], 0.5), percentile(&[7], 0.5)), (None, Some(7)));
    }

    #[test]
    fn one_wild_round_does_not_move_the_median_far() {
        assert_eq!(median(&[3.0, 1000.0, 1.0]), 3.0);
        assert_eq!(median(&[4.0, 2.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(median(&[]), 0.0);
    }
}
