//! Measuring cases in turn, round after round, so that a disturbance of the machine does not hit one
//! of them alone.

use std::collections::BTreeMap;

use crate::Result;
use crate::progress::Progress;

/// A sample of each case for each round.
#[cfg(feature = "servers")]
pub(crate) fn in_turn<C, S>(
    cases: &[C],
    rounds: u32,
    told: impl Fn(&C) -> String,
    sample: impl Fn(&C) -> Result<S>,
) -> Result<Vec<Vec<S>>> {
    in_turn_as_far_as(cases, rounds, told, |_| true, sample).map(|(samples, _)| samples)
}

/// The same, and what is to be said of the cases that could not be measured: those that need not be,
/// since `must` does not say so, are left out from their first failure on.
pub(crate) fn in_turn_as_far_as<C, S>(
    cases: &[C],
    rounds: u32,
    told: impl Fn(&C) -> String,
    must: impl Fn(&C) -> bool,
    sample: impl Fn(&C) -> Result<S>,
) -> Result<(Vec<Vec<S>>, Vec<String>)> {
    let progress = Progress::of(cases.len() * rounds as usize);
    let mut samples: Vec<Vec<S>> = cases.iter().map(|_| Vec::new()).collect();
    let mut failed = BTreeMap::new();
    for _ in 0..rounds {
        for (at, (case, samples)) in cases.iter().zip(&mut samples).enumerate() {
            if failed.contains_key(&at) {
                continue;
            }
            progress.begin(told(case));
            match sample(case) {
                Ok(sample) => samples.push(sample),
                Err(error) if must(case) => return Err(error),
                Err(error) => {
                    failed.insert(at, format!("{} failed: {error}", told(case)));
                }
            }
            progress.done();
        }
    }
    Ok((samples, failed.into_values().collect()))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_case_that_fails_is_left_out_and_said_unless_it_must_not() {
        let asked = RefCell::new(Vec::new());
        let sample = |case: &u32| {
            asked.borrow_mut().push(*case);
            if *case == 2 { Err("no server".into()) } else { Ok(*case) }
        };
        let told = |case: &u32| format!("case {case}");
        let (samples, failed) = in_turn_as_far_as(&[1, 2, 3], 2, told, |_| false, sample).unwrap();
        assert_eq!(samples, [vec![1, 1], vec![], vec![3, 3]]);
        assert_eq!(failed, ["case 2 failed: no server"]);
        assert_eq!(asked.take(), [1, 2, 3, 1, 3], "in turn");
        assert!(in_turn(&[1, 2, 3], 2, told, sample).is_err());
    }
}
