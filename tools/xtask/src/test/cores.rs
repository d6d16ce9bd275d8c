//! How busy the machine's cores were.

use std::fs;

/// The time of all cores since the machine was started, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    all: u64,
    idle: u64,
}

impl Cores {
    pub(super) fn now() -> Self {
        Self::read(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line of `/proc/stat`: user, nice, system, idle, iowait and others, in ticks.
    fn read(stat: &str) -> Self {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
        let idle = ticks.iter().skip(3).take(2).sum();
        // The last two are in the first two already.
        Self { all: ticks.iter().take(8).sum(), idle }
    }

    /// What is to be said of the time since.
    pub(super) fn note(&self) -> String {
        match self.idle_share(&Self::now()) {
            Some(share) => format!("cores idle {share} %"),
            None => String::new(),
        }
    }

    fn idle_share(&self, later: &Self) -> Option<u64> {
        let all = later.all.checked_sub(self.all)?;
        let idle = later.idle.checked_sub(self.idle)?;
        (idle * 100).checked_div(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_share_is_of_the_time_between() {
        let before = Cores::read("cpu  100 0 100 300 100 0 0 0 50 0\ncpu0 1 2 3\n");
        assert_eq!(before, Cores { all: 600, idle: 400 });
        let after = Cores::read("cpu  160 0 100 320 120 0 0 0 60 0\n");
        assert_eq!(before.idle_share(&after), Some(40));
        assert_eq!(before.idle_share(&before), None);
    }
}
