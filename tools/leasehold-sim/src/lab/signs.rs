//! Signs and labels on a lane, none of them over another.

use std::fmt::Write;

/// What is drawn for something that happens at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sign {
    Dot,
    Cross,
    Bolt,
}

/// How wide a sign is, with the gap to the next one.
const SIGN: f64 = 14.0;

impl Sign {
    pub(super) fn draw(self, out: &mut String, (x, y): (f64, f64), colour: &str) {
        let _ = match self {
            Self::Dot => {
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>")
            }
            Self::Cross => writeln!(
                out,
                "<path d=\"M{:.1} {:.1}l10 10m0 -10l-10 10\" stroke=\"{colour}\" stroke-width=\"2.5\" \
                 fill=\"none\"/>",
                x - 5.0,
                y - 5.0
            ),
            Self::Bolt => writeln!(
                out,
                "<path d=\"M{:.1} {:.1}l-6 10h5l-3 8l8 -11h-5l4 -7z\" fill=\"{colour}\"/>",
                x + 1.0,
                y - 9.0
            ),
        };
    }
}

/// What is taken of one lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Row(Vec<(f64, f64)>);

impl Row {
    /// Takes this part, if it is free.
    pub(super) fn takes(&mut self, from: f64, until: f64) -> bool {
        let free = self.0.iter().all(|(start, end)| until <= *start || *end <= from);
        if free {
            self.0.push((from, until));
        }
        free
    }

    /// The place of a sign: at `x`, or beside the signs that are there.
    pub(super) fn place(&mut self, x: f64) -> f64 {
        let mut at = x;
        while !self.takes(at - SIGN / 2.0, at + SIGN / 2.0) {
            at += SIGN / 2.0;
        }
        at
    }

    /// Where a label of this width begins beside a sign: right of it, left of it, or nowhere.
    pub(super) fn beside(&mut self, x: f64, wide: f64, (left, right): (f64, f64)) -> Option<f64> {
        let starts = [x + SIGN / 2.0 + 2.0, x - SIGN / 2.0 - 2.0 - wide];
        starts
            .into_iter()
            .find(|from| left <= *from && from + wide <= right && self.takes(*from, from + wide))
    }
}
