//! Decides when an entry is reloaded before it expires, so that no reader waits for the load.

/// XFetch (Vattani, Chierichetti, Lowenstein: "Optimal Probabilistic Cache Stampede Prevention",
/// VLDB 2015): a reload is more likely if the expiry is near and the load is slow. `dice` is
/// uniform in (0, 1]. A `beta` above 1 reloads earlier; 0 never reloads, not even in the
/// millisecond to which the expiry is rounded. Times are in milliseconds.
pub(crate) fn is_due(now_ms: u64, soft_ms: u64, load_us: u32, beta: f64, dice: f64) -> bool {
    let ahead = f64::from(load_us) / 1000.0 * beta * -dice.max(f64::MIN_POSITIVE).ln();
    beta > 0.0 && now_ms as f64 + ahead >= soft_ms as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_due_and_what_lasts_long_is_not() {
        assert!(is_due(1_000, 1_000, 0, 1.0, 1.0));
        assert!(!is_due(1_000, 61_000, 100_000, 1.0, 0.000_01));
        assert!(is_due(1_000, 61_000, 100_000, 1.0, 0.0));
    }

    #[test]
    fn nothing_is_loaded_early_when_that_is_off() {
        assert!(!is_due(1_000, 1_000, 100_000, 0.0, 0.5));
    }

    #[test]
    fn a_dear_load_is_begun_earlier() {
        // 100 ms before the end: with probability exp(-1) for a load of 100 ms.
        assert!(is_due(900, 1_000, 100_000, 1.0, 0.36));
        assert!(!is_due(900, 1_000, 100_000, 1.0, 0.37));
        assert!(!is_due(900, 1_000, 1_000, 1.0, 0.36));
    }
}
