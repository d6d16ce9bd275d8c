//! Finds a short sequence that fails in a long one that does.

/// A part of `items`, in the same order, that fails and from which no single item can be left out;
/// `items` is returned as it is when it does not fail.
///
/// Ever smaller pieces are left out (Zeller: "Simplifying and isolating failure-inducing input",
/// 2002).
pub fn shrink<T: Clone>(mut items: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut piece = items.len().div_ceil(2);
    while piece > 0 {
        let mut shorter = false;
        let mut from = 0;
        while from < items.len() {
            let mut rest = items.clone();
            rest.drain(from..items.len().min(from + piece));
            if fails(&rest) {
                items = rest;
                shorter = true;
            } else {
                from += piece;
            }
        }
        if piece > 1 {
            piece = piece.div_ceil(2);
        } else if !shorter {
            break;
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn what_is_not_needed_is_left_out() {
        let needs = |items: &[u32]| items.contains(&3) && items.contains(&70);
        assert_eq!(shrink((0..100).collect(), needs), [3, 70]);
        assert_eq!(shrink(vec![1, 2], needs), [1, 2]);
        assert!(shrink(vec![1, 2], |_| true).is_empty());
    }
}
