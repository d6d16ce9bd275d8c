//! Removes faults and commands from a plan for as long as its run breaks a promise.

use crate::Result;

/// Removes items while what is left still fails, in pieces of half, a quarter, and so on to single ones.
/// `fails` says whether a candidate fails, and `None` when the time is over. Processes run freely, so a
/// candidate that could fail may not: what is left is small, not the smallest. The last items go first: a run ends soon
/// after its last one.
pub(crate) fn shrink<T: Clone>(
    items: &[T],
    mut fails: impl FnMut(&[T]) -> Result<Option<bool>>,
) -> Result<Vec<T>> {
    let mut left = items.to_vec();
    let mut piece = left.len().div_ceil(2);
    while piece > 0 && !left.is_empty() {
        let (before, mut end) = (left.len(), left.len());
        while end > 0 {
            let at = end.saturating_sub(piece);
            let candidate = [&left[..at], &left[end..]].concat();
            match fails(&candidate)? {
                None => return Ok(left),
                Some(true) => left = candidate,
                Some(false) => {}
            }
            end = at;
        }
        // Single ones once more after some have gone.
        let again = piece == 1 && left.len() < before;
        piece = if again { 1 } else { piece / 2 };
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_it_takes() {
        for culprits in [&[3][..], &[0, 19], &[7, 8, 12], &[]] {
            let mut runs = 0;
            let items: Vec<i32> = (0..20).collect();
            let left = shrink(&items, |candidate| {
                runs += 1;
                Ok(Some(culprits.iter().all(|culprit| candidate.contains(culprit))))
            });
            assert_eq!(left.unwrap(), culprits);
            assert!(runs < 100, "{runs}");
        }
    }

    #[test]
    fn the_best_so_far_is_left_when_the_time_is_over() {
        let items: Vec<i32> = (0..16).collect();
        let mut runs = 0;
        let left = shrink(&items, |candidate| {
            runs += 1;
            Ok((runs < 3).then_some(candidate.contains(&1)))
        });
        assert_eq!(left.unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
