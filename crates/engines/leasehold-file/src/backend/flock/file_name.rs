//! The file of a lock that callers of flock(2) share: the name itself, as far as a file can have it.

use leasehold_core::Name;

use super::super::escape::end;

/// The longest name of a file, in bytes, on all usual file systems.
const LONGEST: usize = 255;

/// Returns the name of the file: that of the lock with the suffix. Only `/`, `%`, names that begin as our own directory
/// does, and `.` and `..` are escaped. A name that is too long is cut and ends in `~` and a hash.
pub(super) fn file_name(name: &Name, suffix: &str) -> String {
    let name = name.as_str();
    let is_ours = [".", ".."].contains(&name) || name.starts_with(".leasehold");
    // Not what a name that was cut ends in.
    let tilde = name.rfind('~').filter(|at| {
        let digits = &name.as_bytes()[at + 1..];
        digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit)
    });
    let most = LONGEST - suffix.len();
    let (mut file, mut readable) = (String::new(), 0);
    for (at, character) in name.char_indices() {
        match character {
            '/' | '%' => file.push_str(&format!("%{:02X}", u32::from(character))),
            '.' if at == 0 && is_ours => file.push_str("%2E"),
            '~' if tilde == Some(at) => file.push_str("%7E"),
            other => file.push(other),
        }
        if file.len() <= most - 33 {
            readable = file.len();
        }
    }
    if file.len() > most {
        file.truncate(readable);
        file.push_str(&end(name));
    }
    file + suffix
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::directory::FLOCK_RECORDS;
    use super::*;

    fn file(name: &str, suffix: &str) -> String {
        file_name(&Name::new(name).unwrap(), suffix)
    }

    #[test]
    fn ordinary_names_are_the_names_of_their_files() {
        for name in ["report", "my job.lck", "A-1", "名", "-rf", "a:b", "~", ".hidden", "a~b"] {
            assert_eq!(file(name, ""), name);
            assert_eq!(file(name, ".lock"), format!("{name}.lock"));
        }
        for (name, other) in [
            ("a/b", "a%2Fb"),
            ("50%", "50%25"),
            (".", "%2E"),
            ("..", "%2E."),
            (".leasehold-flock", "%2Eleasehold-flock"),
            ("../x", "..%2Fx"),
        ] {
            assert_eq!(file(name, ""), other);
        }
    }

    fn names() -> impl Strategy<Value = Name> {
        prop_oneof!["\\PC{1,40}", "[aA./%~é]{1,8}", "[ab/]{210,260}", "名{80,90}", "x~[0-9a-f]{32}"]
            .prop_filter_map("a lock name", |name| Name::new(name).ok())
    }

    proptest! {
        #[test]
        fn no_file_lies_elsewhere_and_no_two_names_share_one(one in names(), two in names()) {
            for suffix in ["", ".lock"] {
                let (a, b) = (file_name(&one, suffix), file_name(&two, suffix));
                prop_assert!(!a.contains('/') && a != "." && a != ".." && a != FLOCK_RECORDS);
                prop_assert!((1..=LONGEST).contains(&a.len()));
                prop_assert_eq!(one == two, a == b);
                // Nor is a name that looks like the file of another one.
                let alike = a.strip_suffix(suffix).unwrap_or_default();
                prop_assert_eq!(one.as_str() == alike, file(alike, suffix) == a);
            }
        }
    }
}
