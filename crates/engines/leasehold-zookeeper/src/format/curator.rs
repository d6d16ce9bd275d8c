//! The layout of Curator's `InterProcessMutex`: `_c_<uuid>-lock-<number>`, and every other node in the order of its text.

use super::{Ordered, is_other_kind, is_suspect, number_behind, queued};
use crate::path::{LATCH, QueueNode, SEMAPHORE, WIRE};

/// The text before the number, by which Curator finds the part of a name that it compares.
const MARK: &str = "lock-";
/// The texts before the numbers of kazoo's locks, which a mutex does not exclude.
const OTHERS: [&str; 2] = ["__lock__", "__rlock__"];

/// Orders the nodes as `StandardLockInternalsDriver` does: as texts, by what is behind the last `lock-`, or by the whole
/// name. A node that owns the lock is the first one of all.
pub(super) fn order(nodes: Vec<String>) -> Result<Ordered, String> {
    let mut ordered = Ordered::default();
    for node in nodes {
        let is_other = OTHERS.iter().any(|mark| number_behind(&node, mark).is_some());
        if is_other || is_other_kind(&node) || matches!(&*node, LATCH | SEMAPHORE | WIRE) {
            return Err(node);
        }
        match number_behind(&node, MARK).map(|number| queued(&node, number)) {
            // A client without the option may be there to read.
            Some(plain) => ordered.nodes.push(QueueNode::parse(&node).unwrap_or(plain)),
            None => {
                ordered.suspects.extend(is_suspect(&node).then(|| node.clone()));
                ordered.strays.push(node);
            }
        }
    }
    ordered.nodes.sort_by(|a, b| key(&a.node).cmp(key(&b.node)).then_with(|| a.node.cmp(&b.node)));
    ordered.strays.sort_by(|a, b| key(a).cmp(key(b)).then_with(|| a.cmp(b)));
    // Those that come after all are ignored, as `config` is by all numbers.
    let last = ordered.nodes.last().map_or("0000000000", |last| key(&last.node)).to_owned();
    ordered.strays.retain(|stray| *key(stray) < *last);
    Ok(ordered)
}

/// Returns the node before that at this place, also if it belongs to no lock.
pub(super) fn before<'a>(
    nodes: &'a [QueueNode],
    strays: &'a [String],
    place: usize,
) -> Option<&'a str> {
    let own = key(&nodes.get(place)?.node);
    let before = place.checked_sub(1).and_then(|place| nodes.get(place));
    let stray = strays.iter().rfind(|stray| key(stray) < own);
    let nodes = before.map(|before| &*before.node).into_iter().chain(stray.map(|stray| &**stray));
    nodes.max_by(|a, b| key(a).cmp(key(b)))
}

fn key(node: &str) -> &str {
    node.rsplit_once(MARK).map_or(node, |(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(nodes: &[&str]) -> Ordered {
        order(nodes.iter().map(|node| (*node).to_owned()).collect()).unwrap()
    }

    fn before(ordered: &Ordered, place: usize) -> Option<&str> {
        super::before(&ordered.nodes, &ordered.strays, place)
    }

    const A: &str = "_c_ffffffff-89ab-cdef-0000-000700000009-lock-0000000003";
    const B: &str = "_c_00000000-89ab-cdef-0000-000700000009-lock-0000000012";

    #[test]
    fn mutexes_are_in_the_order_of_their_numbers_and_what_curator_ignores_is_ignored() {
        let ordered = ordered(&["config", B, "abc", "__lock__", A, "_", "~"]);
        let names: Vec<&str> = ordered.nodes.iter().map(|node| &*node.node).collect();
        assert_eq!(names, [A, B]);
        assert!(ordered.strays.is_empty(), "{ordered:?}");
        assert_eq!((before(&ordered, 0), before(&ordered, 1)), (None, Some(A)));
    }

    #[test]
    fn what_comes_before_a_mutex_in_the_order_of_texts_blocks_it() {
        for stray in ["!config", "0", "x-lock-", "-1", "0000000003x", "0000000011"] {
            let ordered = ordered(&[A, stray, B]);
            assert_eq!(ordered.strays, [stray], "{stray}");
            let expected = if key(stray) < key(A) { A } else { stray };
            assert_eq!(before(&ordered, 1), Some(expected), "{stray}");
            assert_eq!(before(&ordered, 0), (key(stray) < key(A)).then_some(stray), "{stray}");
        }
        assert_eq!(ordered(&["!config", "abc"]).strays, ["!config"]);
    }

    /// After their largest number, servers continue below zero. Curator then takes the newest node for the first.
    #[test]
    fn the_order_is_curators_also_where_the_numbers_pass_their_largest() {
        let ordered = ordered(&["a-lock-2147483647", "b-lock--2147483648"]);
        assert_eq!(ordered.nodes[0].node, "b-lock--2147483648");
    }

    #[test]
    fn locks_that_a_mutex_does_not_exclude_are_named() {
        for other in [
            "8743c9c00795490787fd6c719a6b4586__lock__0000000001",
            "8743c9c00795490787fd6c719a6b4586__rlock__0000000001",
            "_c_00000000-89ab-cdef-0000-000700000009-__WRIT__0000000001",
            "_c_00000000-89ab-cdef-0000-000700000009-latch-0000000001",
            "leases",
            "latch",
            "semaphore",
            "wire",
        ] {
            assert_eq!(order(vec![A.into(), other.into()]), Err(other.to_owned()));
        }
    }
}
