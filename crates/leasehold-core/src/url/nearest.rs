//! Finds the known name that a mistyped one most likely means.

/// The longest text that is compared, in bytes.
const LONGEST: usize = 200;

/// Returns the nearest of the names, if few letters differ.
pub(super) fn nearest<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A comparison takes time and memory for each pair of letters.
    if typed.len() > LONGEST {
        return None;
    }
    let most = (typed.chars().count() / 3).max(1);
    let far = |name: &&str| distance(typed, name);
    names.into_iter().min_by_key(far).filter(|name| distance(typed, name) <= most)
}

/// Returns how many letters have to be inserted, left out, replaced or swapped with the next one.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (at, letter) in one.iter().enumerate() {
        let above = &rows[at];
        let mut row = vec![at + 1];
        for (column, target) in other.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != target);
            let mut least = replaced.min(above[column + 1] + 1).min(row[column] + 1);
            if at > 0 && column > 0 && one[at - 1] == *target && other[column - 1] == *letter {
                least = least.min(rows[at - 1][column - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_letters_are_forgiven_and_many_are_not() {
        let names = ["gc-pause", "herd", "clock-jump"];
        let find = |typed| nearest(typed, names);
        for typed in ["gc-puase", "gcpause", "gc_pause", "gc-pauses"] {
            assert_eq!(find(typed), Some("gc-pause"), "{typed}");
        }
        assert_eq!(find("hred"), Some("herd"));
        assert_eq!(find("nope"), None);
        assert_eq!(find(""), None);
    }
}
