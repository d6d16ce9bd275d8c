//! Parses whole numbers on the command line; errors contain the allowed range.

use std::ops::RangeInclusive;

/// Returns a parser for a whole number in this range.
pub(crate) fn within<T: TryFrom<u64> + 'static>(
    allowed: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match allowed.end() {
            &u64::MAX => format!("a whole number of at least {} is allowed", allowed.start()),
            end => format!("a whole number from {} to {end} is allowed", allowed.start()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_in_range_is_refused_with_what_is_allowed() {
        let parse = within::<u8>(1..=9);
        assert_eq!((parse("1"), parse("9")), (Ok(1), Ok(9)));
        for text in ["", "0", "10", "-1", "x", "1.5", "99999999999999999999"] {
            assert!(parse(text).unwrap_err().contains("from 1 to 9"), "{text}");
        }
        let parse = within::<u64>(0..=u64::MAX);
        assert_eq!(parse("0"), Ok(0));
        assert!(parse("-1").unwrap_err().contains("at least 0"));
    }
}
