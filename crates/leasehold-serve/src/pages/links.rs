//! Links between the pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stays as it is.
const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Escapes a value of a query.
fn part(text: &str) -> String {
    utf8_percent_encode(text, &KEPT).to_string()
}

/// Returns the page of a lock.
pub(super) fn lock(store: &str, name: &str) -> String {
    // Not in the path: browsers remove `..` from it, which is a name too.
    format!("/lock?{}", query(&[("store", store), ("name", name)]))
}

/// Returns a query of the parameters that have a value.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}={}", part(value))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_part_of_a_link() {
        let link = "/lock?store=s&name=a%2Fb%3Fc%23d%22%3C%C3%A9";
        assert_eq!(lock("s", "a/b?c#d\"<é"), link);
        assert_eq!(query(&[("a", "x&y=z"), ("b", ""), ("c", "1")]), "a=x%26y%3Dz&c=1");
    }
}
