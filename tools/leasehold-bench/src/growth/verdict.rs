//! Whether a cost grows faster than the logarithm of a size.

/// A cost that grows by less than this part does not grow: the noise of a measurement.
const NOISE: f64 = 1.3;
/// How far the growth of one step may be above that of the logarithm: one step has more noise than all together.
const STEP_NOISE: f64 = 1.6;

/// How a cost grows from the smallest to the largest size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// The last cost as a multiple of the first.
    pub(super) ratio: f64,
    /// The same of the logarithm of the size.
    pub(super) log_ratio: f64,
    pub(super) word: &'static str,
}

/// Compares costs by size, ascending; `None` of less than two.
pub(super) fn growth(costs: &[(usize, f64)]) -> Option<Growth> {
    let [.., before, last] = *costs else { return None };
    let first = costs[0];
    let (ratio, log_ratio) = (last.1 / first.1, log(last.0) / log(first.0));
    let (step, log_step) = (last.1 / before.1, log(last.0) / log(before.0));
    // A large constant part hides growth in the ratio of all, and not in that of the last step.
    let faster = ratio > log_ratio * NOISE || (ratio > NOISE && step > log_step * STEP_NOISE);
    let word = match faster {
        true => "faster",
        false if ratio > NOISE => "log",
        false => "flat",
    };
    Some(Growth { ratio, log_ratio, word })
}

/// Of one more, so that it is not 0 for one waiter.
fn log(size: usize) -> f64 {
    (size as f64 + 1.0).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

    fn word(cost: impl Fn(f64) -> f64) -> &'static str {
        let costs = SIZES.map(|size| (size, cost(size as f64)));
        growth(&costs).unwrap().word
    }

    #[test]
    fn growth_is_flat_logarithmic_or_faster() {
        assert_eq!(word(|_| 7.0), "flat");
        assert_eq!(word(|size| 7.0 + size.log2() * 0.05), "flat");
        assert_eq!(word(f64::log2), "log");
        assert_eq!(word(|size| size.sqrt()), "faster");
        assert_eq!(word(|size| size), "faster");
    }

    #[test]
    fn a_large_constant_part_does_not_hide_the_growth_of_the_last_step() {
        assert_eq!(word(|size| 1e6 + size * 1.5), "faster");
    }

    #[test]
    fn the_ratios_are_those_of_the_first_and_the_last_size() {
        let found = growth(&[(1, 2.0), (10, 3.0), (1_023, 8.0)]).unwrap();
        assert_eq!((found.ratio, found.log_ratio), (4.0, 10.0));
        assert_eq!(growth(&[(1, 2.0), (3, 5.0)]).unwrap().log_ratio, 2.0);
        assert_eq!(growth(&[(1, 2.0)]), None);
    }
}
