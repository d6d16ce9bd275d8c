//! The options of a URL that choose the format.

use leasehold_core::{Result, StoreUrl};

/// The only format of etcd's libraries.
const CONCURRENCY: &str = "concurrency";
const KEY_PREFIX: &str = "key-prefix";
/// The longest prefix, in bytes.
const LONGEST: usize = 200;

/// The format of Go's `concurrency.Mutex`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    /// What precedes the name in the keys.
    pub(crate) prefix: String,
}

impl Format {
    /// Takes the options of the format out of a URL. Returns `None` if it names no format.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for an unknown format, and for an option without it.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        let (wire, prefix) = (url.take("wire"), url.take(KEY_PREFIX));
        if prefix.is_some() && wire.as_deref() != Some(CONCURRENCY) {
            return Err(StoreUrl::invalid(
                "key-prefix belongs to wire=concurrency; write both, or neither",
            ));
        }
        if let Some(text) = prefix.as_ref().filter(|text| !is_prefix(text)) {
            let option = KEY_PREFIX;
            return Err(StoreUrl::invalid(format!(
                "{option} {text:?}; 1 to {LONGEST} bytes without control characters are allowed"
            )));
        }
        match wire.as_deref() {
            None => Ok(None),
            Some(CONCURRENCY) => Ok(Some(Self { prefix: prefix.unwrap_or_default() })),
            Some(other) => {
                let meant = StoreUrl::meant(other, [CONCURRENCY]);
                Err(StoreUrl::invalid(format!("wire {other:?}{meant}; concurrency is allowed")))
            }
        }
    }

    /// The options of the format, as in the URL.
    pub(crate) fn text(&self) -> String {
        match &*self.prefix {
            "" => CONCURRENCY.to_owned(),
            prefix => format!("{CONCURRENCY}&{KEY_PREFIX}={prefix}"),
        }
    }
}

fn is_prefix(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(options: &str) -> Result<Option<Format>> {
        Format::take(&mut StoreUrl::parse(&format!("etcd://h?{options}")).unwrap())
    }

    #[test]
    fn the_format_and_its_prefix_are_understood() {
        assert_eq!(take("user=u").unwrap(), None);
        let format = take("wire=concurrency").unwrap().unwrap();
        assert_eq!((&*format.prefix, &*format.text()), ("", "concurrency"));
        let format = take("wire=concurrency&key-prefix=locks/").unwrap().unwrap();
        assert_eq!(format.prefix, "locks/");
        assert_eq!(format.text(), "concurrency&key-prefix=locks/");
    }

    #[test]
    fn wrong_options_are_named_with_what_is_allowed() {
        for (options, part) in [
            ("wire=concurency", "did you mean \"concurrency\""),
            ("wire=", "concurrency is allowed"),
            ("key-prefix=a", "belongs to wire=concurrency"),
            ("wire=concurrency&key-prefix=", "key-prefix \"\""),
            ("wire=concurrency&key-prefix=a%0Ab", "control characters"),
        ] {
            let error = take(options).unwrap_err().to_string();
            assert!(error.contains(part), "{options}: {error}");
        }
    }
}
