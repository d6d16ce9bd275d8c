//! What the judge's own file locks have seen: each time that a holder met another one there, a journal must name it.
//! Whether that one still believed in its lease, the overlaps tell.

use super::Evidence;
use crate::journal::{Met, Span};

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Holds that took a file lock.
    pub(crate) entered: u64,
    /// Those that met another one there: it was stopped, or overlapped in another way.
    pub(crate) met: u64,
    /// Those that met one that no journal names, in words.
    pub(crate) against: Vec<String>,
}

/// Whether it is the span of the hold itself.
fn is_of(met: &Met, span: &Span) -> bool {
    (span.client, span.hold) == (met.client, met.hold)
}

pub(super) fn of(evidence: &Evidence) -> Seen {
    // It tried after its own hold began, and wrote that it met another one later: that one may have left between.
    let tried = |met: &Met| {
        let own = evidence.spans.iter().find(|span| is_of(met, span));
        own.map_or(met.at, |own| own.from.min(met.at))
    };
    let is_unnamed = |met: &&Met| {
        let tried = tried(met);
        let is_named = |span: &&Span| {
            let conflicts = span.part.conflicts(met.part) || is_of(met, span);
            conflicts && span.from <= met.at && tried <= span.until
        };
        // The span of the hold itself is there too.
        evidence.spans.iter().filter(is_named).nth(1).is_none()
    };
    let unnamed = evidence.met.iter().filter(is_unnamed);
    let start = evidence.holds.first().map_or(0, |hold| hold.got);
    let told = |met: &Met| {
        let seconds = (i128::from(met.at) - i128::from(start)) as f64 / 1e9;
        format!("client {} met a file lock at {seconds:.3} s that no holder had", met.client)
    };
    Seen {
        entered: evidence.spans.len() as u64,
        met: evidence.met.len() as u64,
        against: unnamed.map(told).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Part;

    #[test]
    fn a_file_lock_that_no_holder_had_is_found() {
        let span = |client, part, from, until| Span { client, hold: 0, part, from, until };
        let mut evidence = Evidence {
            spans: vec![span(1, Part::Read, 10, 50), span(2, Part::Whole, 20, 30)],
            met: vec![Met { client: 2, hold: 0, at: 21, part: Part::Whole }],
            ..Evidence::default()
        };
        assert_eq!(of(&evidence), Seen { entered: 2, met: 1, against: Vec::new() });
        evidence.met[0].at = 55;
        assert_eq!(of(&evidence).against.len(), 0, "it left before that was written");
        evidence.spans[0].until = 19;
        assert_eq!(of(&evidence).against.len(), 1);
        evidence.spans[0] = span(1, Part::Slots(1), 10, 50);
        evidence.spans[1] = span(2, Part::Slots(2), 20, 30);
        evidence.met[0].part = Part::Slots(2);
        assert_eq!(of(&evidence).against.len(), 1, "it had another slot");
    }
}
