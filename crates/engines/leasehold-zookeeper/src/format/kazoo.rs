//! The layout of kazoo's `Lock`: `<32 hex digits>__lock__<number>`, in the order of the numbers, and nothing else.

use leasehold_core::AttemptId;

use super::{Ordered, is_other_kind, is_suspect, number_behind, queued};
use crate::path::{LATCH, SEMAPHORE};

const MARK: &str = "__lock__";
/// That of kazoo's `ReadLock`, which kazoo's `Lock` ignores. A lock of ours waits for it.
const READS: &str = "__rlock__";
/// The text before the numbers of Curator's mutexes, and of our own locks.
const OTHERS: &str = "lock-";

/// Returns the beginning of the name of an attempt's node.
pub(super) fn prefix(attempt: AttemptId) -> String {
    format!("{attempt}{MARK}")
}

/// Returns the attempt in the name of a node.
pub(super) fn attempt(node: &str) -> Option<AttemptId> {
    AttemptId::parse(node.get(..32)?)
}

/// Orders the nodes of locks by their numbers, which kazoo compares as texts. It ignores all others.
pub(super) fn order(nodes: Vec<String>) -> Result<Ordered, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut suspects = Vec::new();
    for node in nodes {
        let is_other = number_behind(&node, OTHERS).is_some() || is_other_kind(&node);
        if is_other || matches!(&*node, LATCH | SEMAPHORE) {
            return Err(node);
        }
        let number = [MARK, READS].iter().find_map(|mark| number_behind(&node, mark));
        if let Some(number) = number.map(str::to_owned) {
            found.push((number, node));
        } else if is_suspect(&node) {
            suspects.push(node);
        }
    }
    found.sort();
    let nodes = found.iter().map(|(number, node)| queued(node, number)).collect();
    Ok(Ordered { nodes, suspects, ..Ordered::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use leasehold_core::ClientId;

    #[test]
    fn locks_and_readers_are_in_the_order_of_their_numbers_and_the_rest_is_ignored() {
        let attempt = AttemptId::new(ClientId::from_bits(0x0123_4567_89ab_cdef), 7, 9);
        let ours = prefix(attempt) + "0000000012";
        assert_eq!(ours, "0123456789abcdef0000000700000009__lock__0000000012");
        let reads = "8743c9c00795490787fd6c719a6b4586__rlock__0000000003";
        let nodes = [ours.as_str(), "!config", reads, "x__lock__12", "wire", "__lock__"];
        let ordered = order(nodes.map(str::to_owned).to_vec()).unwrap();
        let names: Vec<&str> = ordered.nodes.iter().map(|node| &*node.node).collect();
        assert_eq!(names, [reads, ours.as_str()]);
        assert!(ordered.strays.is_empty());
        assert_eq!(Format::Kazoo.before(&ordered.nodes, &ordered.strays, 1), Some(reads));
        assert_eq!(Format::Kazoo.attempt(&ordered.nodes[1]), Some(attempt));
    }

    #[test]
    fn nodes_of_curator_and_of_clients_without_the_option_are_named() {
        for other in [
            "_c_00000000-89ab-cdef-0000-000700000009-lock-0000000012",
            "_c_00000000-89ab-cdef-0000-000700000009-__READ__0000000012",
            "leases",
            "semaphore",
        ] {
            assert_eq!(order(vec![other.into()]), Err(other.to_owned()));
        }
    }
}
