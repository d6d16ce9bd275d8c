//! Converts a lock's name to a safe, unique and short file name, and back.

use leasehold_core::Name;
use sha2::{Digest, Sha256};

/// Longer escaped names are cut and get a hash. With the longest suffix, a file name has at most
/// the 255 bytes that file systems allow.
const LONGEST: usize = 180;

/// The maximum length of the readable part of a long name.
const READABLE: usize = 100;

/// Returns the file name for a lock, without suffix.
///
/// Lower-case letters, digits, `_`, `-` and `.` (except as the first byte) are kept. Every other
/// byte becomes `%XX`, upper case too, because some file systems ignore case.
pub(crate) fn escape(name: &Name) -> String {
    let name = name.as_str();
    let mut out = String::with_capacity(name.len());
    let mut readable = 0;
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => out.push(byte.into()),
            b'.' if at > 0 => out.push('.'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        if out.len() <= READABLE {
            readable = out.len();
        }
    }
    if out.len() > LONGEST {
        out.truncate(readable);
        // Escaping never produces '~', so a short and a long name never have the same file.
        out.push_str(&end(name));
    }
    out
}

/// Returns the end of the file name of a long lock name that was cut: `~` and the digits of a hash.
pub(crate) fn end(name: &str) -> String {
    let hash = Sha256::digest(name.as_bytes());
    hash[..16].iter().fold("~".to_owned(), |end, byte| end + &format!("{byte:02x}"))
}

/// Returns the name that was escaped; `None` if it was cut, or [`escape`] did not produce it.
pub(crate) fn unescape(file: &str) -> Option<Name> {
    let mut bytes = Vec::with_capacity(file.len());
    let mut rest = file.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        });
    }
    let name = Name::new(String::from_utf8(bytes).ok()?).ok()?;
    (escape(&name) == file).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn esc(name: &str) -> String {
        escape(&Name::new(name).unwrap())
    }

    #[test]
    fn plain_names_stay_readable() {
        for (name, file) in [
            ("orders_5-5.x", "orders_5-5.x"),
            ("orders/555", "orders%2F555"),
            (".", "%2E"),
            ("..", "%2E."),
            ("../../x", "%2E.%2F..%2Fx"),
            ("%2e", "%252e"),
            ("A", "%41"),
            ("a~b", "a%7Eb"),
            ("名", "%E5%90%8D"),
        ] {
            assert_eq!(esc(name), file);
        }
    }

    #[test]
    fn long_names_are_cut_between_escapes_and_told_apart_by_a_hash() {
        let (one, two) = (esc(&format!("{}a", "名".repeat(150))), esc(&"名".repeat(150)));
        assert_ne!(one, two);
        assert_eq!(one[..99], two[..99]);
        assert_eq!(&one[99..100], "~");
        assert_eq!(unescape(&one), None);
    }

    fn names() -> impl Strategy<Value = Name> {
        prop_oneof![
            "\\PC{1,40}",
            "[aA./%~é]{1,8}",
            "[ab]{178,184}",
            "[a/]{80,120}",
            "x{200}[ab]{1,2}",
        ]
        .prop_filter_map("a lock name", |name| Name::new(name).ok())
    }

    proptest! {
        #[test]
        fn no_name_leaves_the_directory_or_is_too_long(name in names()) {
            let file = escape(&name);
            prop_assert!(!file.contains('/') && !file.starts_with('.') && !file.is_empty());
            prop_assert!(file.len() <= LONGEST && file.is_ascii());
            prop_assert!(!file.bytes().any(|b| b.is_ascii_uppercase()) || file.contains('%'));
            if !file.contains('~') {
                prop_assert_eq!(unescape(&file), Some(name));
            }
        }

        #[test]
        fn two_names_never_share_a_file(one in names(), two in names()) {
            prop_assert_eq!(one == two, escape(&one).eq_ignore_ascii_case(&escape(&two)));
        }

        #[test]
        fn nothing_that_is_found_in_the_directory_is_misread(file in "\\PC{0,20}") {
            if let Some(name) = unescape(&file) {
                prop_assert_eq!(escape(&name), file);
            }
        }
    }
}
