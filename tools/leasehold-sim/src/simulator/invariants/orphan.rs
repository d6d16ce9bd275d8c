//! No lease without a client outlives one ttl. Source: the purpose of a ttl.

pub(super) fn is_broken(orphans: usize) -> bool {
    orphans > 0
}
