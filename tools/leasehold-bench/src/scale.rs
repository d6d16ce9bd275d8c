//! The y axis of a panel: from 0 in round steps, or in powers of ten where values lie far apart.

use crate::chart::{Kind, Panel};

/// Lines and dots are drawn on a logarithmic axis when the largest value is this many times the smallest.
const FAR_APART: f64 = 30.0;

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// So many steps of this size, and a little room above them.
    Linear { step: f64, steps: f64, room: f64 },
    /// From one power of ten to another.
    Powers { first: i32, last: i32 },
}

impl Scale {
    /// The one that suits the values of a panel. Bars begin at 0, so theirs is never logarithmic.
    pub(crate) fn of(panel: &Panel) -> Self {
        let values = || panel.values.iter().flatten().flatten().copied();
        let top = values().fold(0.0, f64::max);
        let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let lines = !matches!(panel.kind, Kind::Bars(_));
        if lines && top > FAR_APART * least {
            return Self::Powers {
                first: least.log10().floor() as i32,
                last: top.log10().ceil() as i32,
            };
        }
        let step = step(top);
        let room = if lines { 1.0 } else { 1.04 };
        Self::Linear { step, steps: (top / step).ceil().max(1.0), room }
    }

    /// Values with a line across, from the bottom up.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match *self {
            Self::Linear { step, steps, .. } => {
                (0..=steps as u32).map(|tick| f64::from(tick) * step).collect()
            }
            Self::Powers { first, last } => {
                (first..=last).map(|power| 10_f64.powi(power)).collect()
            }
        }
    }

    /// How far up a value is: 0 at the bottom, 1 at the top.
    pub(crate) fn part(&self, value: f64) -> f64 {
        match *self {
            Self::Linear { step, steps, room } => value / (step * steps * room),
            Self::Powers { first, last } => {
                let power = value.max(f64::MIN_POSITIVE).log10();
                ((power - f64::from(first)) / f64::from(last - first)).max(0.0)
            }
        }
    }
}

/// Round values between these two, about ten of them.
#[cfg(feature = "servers")]
pub(crate) fn between(least: f64, most: f64) -> Vec<f64> {
    let step = step((most - least) / 2.0);
    let first = (least / step).ceil() as i64;
    (first..).map(|at| at as f64 * step).take_while(|value| *value <= most).collect()
}

/// The distance of the lines across: 1, 2 or 5 times a power of ten, for about five of them.
fn step(top: f64) -> f64 {
    if top <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf((top / 5.0).log10().floor());
    let rest = top / 5.0 / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| rest <= *round);
    power * round.unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(kind: Kind, values: &[f64]) -> Scale {
        let values = vec![values.iter().copied().map(Some).collect()];
        Scale::of(&Panel { title: String::new(), x_label: String::new(), kind, values })
    }

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!([step(7.3), step(99.0), step(430_000.0)], [2.0, 20.0, 100_000.0]);
        assert_eq!(scale(Kind::Bars(vec![]), &[7.0, 1e-3]).ticks(), [0.0, 2.0, 4.0, 6.0, 8.0]);
    }

    #[cfg(feature = "servers")]
    #[test]
    fn values_between_are_round() {
        assert_eq!(between(0.0, 17.75), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
        assert_eq!(between(3_200.0, 3_659.0).len(), 10);
        assert_eq!(between(1.0, 1.0), [1.0]);
    }

    #[test]
    fn lines_that_lie_far_apart_have_powers_of_ten() {
        let scale = scale(Kind::Lines(vec![]), &[0.0, 30.0, 1000.0]);
        assert_eq!(scale.ticks(), [10.0, 100.0, 1000.0]);
        assert_eq!([0.0, 10.0, 100.0, 1000.0].map(|value| scale.part(value)), [0.0, 0.0, 0.5, 1.0]);
    }
}
