//! Merges the changes of one key into one delivery.

use std::collections::HashMap;

use crate::transport::Change;

/// Each key once, with its longest hold.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) changes: Vec<Change>,
    /// For each given change, the index of its merged change.
    pub(super) places: Vec<usize>,
}

pub(super) fn merge<'a>(given: impl IntoIterator<Item = &'a Change>) -> Merged {
    let mut seen = HashMap::new();
    let mut merged = Merged { changes: Vec::new(), places: Vec::new() };
    for change in given {
        let next = merged.changes.len();
        let at = *seen.entry((&*change.cache, &*change.key)).or_insert(next);
        match merged.changes.get_mut(at) {
            Some(known) => {
                known.hold = known.hold.max(change.hold);
                // The order shall not matter: rows come in another when they come again.
                known.id = known.id.wrapping_add(change.id);
            }
            None => merged.changes.push(change.clone()),
        }
        merged.places.push(at);
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn change(key: &str, hold: u64, id: u128) -> Change {
        Change { cache: "p:n".into(), key: key.into(), hold: Duration::from_millis(hold), id }
    }

    #[test]
    fn a_key_that_changed_often_is_delivered_once_with_its_longest_hold() {
        let given = [change("a", 5, 1), change("b", 0, 2), change("a", 9, 4), change("a", 1, 8)];
        let merged = merge(&given);
        assert_eq!(merged.changes, [change("a", 9, 13), change("b", 0, 2)]);
        assert_eq!(merged.places, [0, 1, 0, 0]);
    }

    /// A broker drops what it has under the same id: it must not drop a row that it never had.
    #[test]
    fn the_same_rows_have_the_same_id_and_other_rows_have_another() {
        let (one, two) = (change("a", 0, u128::MAX - 3), change("a", 0, 77));
        let id = |given: &[&Change]| merge(given.iter().copied()).changes[0].id;
        assert_eq!(id(&[&one, &two]), id(&[&two, &one]));
        assert_ne!(id(&[&one, &two]), id(&[&one]));
        assert_ne!(id(&[&one, &two]), id(&[&two]));
    }
}
