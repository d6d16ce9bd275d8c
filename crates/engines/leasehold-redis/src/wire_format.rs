//! The options of a URL that choose a format, and what each format is.

use std::time::Duration;

use leasehold_core::{Error, Result, StoreUrl};

use crate::script::Script;

/// The longest prefix, in bytes.
const LONGEST: usize = 200;
/// What the keys of rueidislock begin with, if its program sets no `KeyPrefix`.
const RUEIDIS: &str = "rueidislock";
/// The largest majority: each step of a lock reads twice as many keys.
const MOST: usize = 16;

/// A format, with the options that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// A string that `SET NX PX` has written.
    SetNx {
        /// What precedes the name in the key.
        prefix: String,
        /// The channel of Spring's registry, if its waiters are to be woken.
        spring: Option<String>,
    },
    /// Such strings under several keys, as rueidislock writes them: the owner of a majority holds the lock.
    Rueidis {
        /// What precedes the number of the key and the name.
        prefix: String,
        /// How many of the `2 * majority - 1` keys make a majority.
        majority: usize,
    },
    /// A hash, as Redisson's locks write it.
    Redisson,
}

impl Wire {
    /// Takes the options of a format out of a URL. Returns `None` if it names no format.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for an unknown format, and for options that do not
    /// belong to it.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        let wire = url.take("wire");
        let (prefix, spring) = (url.take("key-prefix"), url.take("spring"));
        let majority = url.take("majority");
        for (option, value, of) in [
            ("key-prefix", &prefix, &["set-nx", "rueidis"][..]),
            ("spring", &spring, &["set-nx"]),
            ("majority", &majority, &["rueidis"]),
        ] {
            if value.is_some() && !wire.as_deref().is_some_and(|wire| of.contains(&wire)) {
                let of = of.join(" and wire=");
                return Err(invalid(format!(
                    "{option} belongs to wire={of}; write both, or neither"
                )));
            }
        }
        for (option, value) in [("key-prefix", &prefix), ("spring", &spring)] {
            if let Some(text) = value.as_ref().filter(|text| !is_prefix(text)) {
                return Err(invalid(format!(
                    "{option} {text:?}; 1 to {LONGEST} bytes without control characters are allowed"
                )));
            }
        }
        match (wire.as_deref(), prefix, spring) {
            (None, ..) => Ok(None),
            (Some("redisson"), ..) => Ok(Some(Self::Redisson)),
            (Some("rueidis"), prefix, _) => {
                let prefix = prefix.unwrap_or_else(|| RUEIDIS.to_owned());
                // With another one than theirs the clients would not exclude each other, and none would see it.
                let Some(majority) = majority else {
                    return Err(invalid(
                        "wire=rueidis needs majority=M; write the KeyMajority of its programs, which is 2 unless they \
                         set another"
                            .to_owned(),
                    ));
                };
                Ok(Some(Self::Rueidis { prefix, majority: majority_of(&majority)? }))
            }
            (Some("set-nx"), Some(_), Some(_)) => Err(invalid(
                "key-prefix and spring; name one of them: spring=KEY has the prefix KEY:"
                    .to_owned(),
            )),
            (Some("set-nx"), prefix, None) => {
                Ok(Some(Self::SetNx { prefix: prefix.unwrap_or_default(), spring: None }))
            }
            (Some("set-nx"), None, Some(registry)) => {
                Ok(Some(Self::SetNx { prefix: format!("{registry}:"), spring: Some(registry) }))
            }
            (Some(other), ..) => {
                let known = ["redisson", "rueidis", "set-nx"];
                let meant = StoreUrl::meant(other, known);
                Err(invalid(format!(
                    "wire {other:?}{meant}; redisson, rueidis or set-nx is allowed"
                )))
            }
        }
    }

    /// The name of the format, as in the URL.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::SetNx { .. } => "set-nx",
            Self::Rueidis { .. } => "rueidis",
            Self::Redisson => "redisson",
        }
    }

    /// The format with the options by which its keys differ, as in a URL.
    pub(crate) fn text(&self) -> String {
        let name = self.name();
        match self {
            Self::SetNx { prefix, .. } if !prefix.is_empty() => {
                format!("{name}&key-prefix={prefix}")
            }
            Self::Rueidis { prefix, majority } if prefix == RUEIDIS => {
                format!("{name}&majority={majority}")
            }
            Self::Rueidis { prefix, majority } => {
                format!("{name}&majority={majority}&key-prefix={prefix}")
            }
            _ => name.to_owned(),
        }
    }

    /// The longest lease that may be granted at a time. A waiter of Redisson that misses a message sleeps until the
    /// lease ends that it has seen.
    pub(crate) fn longest_ttl(&self) -> Option<Duration> {
        match self {
            Self::SetNx { .. } | Self::Rueidis { .. } => None,
            Self::Redisson => Some(Duration::from_secs(30)),
        }
    }

    /// The scripts of the format: to acquire; for every other step, which a full server must still do; and to mark the lock.
    pub(crate) fn scripts(&self, retain: Duration) -> [Script; 3] {
        let format = match self {
            Self::SetNx { .. } | Self::Rueidis { .. } => include_str!("lua/wire_set_nx.lua"),
            Self::Redisson => include_str!("lua/wire_redisson.lua"),
        };
        let retain = crate::script::retained(retain);
        let parts = [
            &*retain,
            include_str!("lua/time.lua"),
            include_str!("lua/wire_start.lua"),
            format,
            include_str!("lua/wire_main.lua"),
        ];
        let body = parts.concat();
        let mark = [include_str!("lua/time.lua"), include_str!("lua/wire_mark.lua")].concat();
        [
            Script::new(format!("#!lua\n{body}")),
            Script::new(format!("#!lua flags=allow-oom\n{body}")),
            Script::new(format!("#!lua\n{mark}")),
        ]
    }
}

fn majority_of(text: &str) -> Result<usize> {
    text.parse()
        .ok()
        .filter(|majority| (1..=MOST).contains(majority))
        .ok_or_else(|| invalid(format!("majority {text:?}; a number from 1 to {MOST} is allowed")))
}

fn is_prefix(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn invalid(what: String) -> Error {
    StoreUrl::invalid(what)
}

/// Refuses the options of admission, for the format of another library.
pub(crate) fn no_admission(url: &mut StoreUrl) -> Result<()> {
    for option in ["admission", "max-ttl"] {
        if url.take(option).is_some() {
            return Err(invalid(format!(
                "{option} with wire: other libraries do not know which servers may vote; name one of the two"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(options: &str) -> Result<Option<Wire>> {
        Wire::take(&mut StoreUrl::parse(&format!("redis://h?{options}")).unwrap())
    }

    #[test]
    fn formats_and_their_options_are_understood() {
        let set_nx = |prefix: &str, spring: Option<&str>| {
            Some(Wire::SetNx { prefix: prefix.into(), spring: spring.map(str::to_owned) })
        };
        assert_eq!(take("prefix=p").unwrap(), None);
        assert_eq!(take("wire=redisson").unwrap(), Some(Wire::Redisson));
        assert_eq!(take("wire=set-nx").unwrap(), set_nx("", None));
        assert_eq!(take("wire=set-nx&key-prefix=redlock:").unwrap(), set_nx("redlock:", None));
        assert_eq!(take("wire=set-nx&spring=a:b").unwrap(), set_nx("a:b:", Some("a:b")));
        for (options, prefix, majority, text) in [
            ("wire=rueidis&majority=2", "rueidislock", 2, "rueidis&majority=2"),
            ("wire=rueidis&majority=1", "rueidislock", 1, "rueidis&majority=1"),
            ("wire=rueidis&majority=2&key-prefix=a", "a", 2, "rueidis&majority=2&key-prefix=a"),
        ] {
            let wire = take(options).unwrap().unwrap();
            assert_eq!(wire, Wire::Rueidis { prefix: prefix.into(), majority }, "{options}");
            assert_eq!(wire.text(), text, "{options}");
        }
    }

    #[test]
    fn wrong_options_are_named_with_what_is_allowed() {
        for (options, part) in [
            ("wire=setnx", "set-nx"),
            ("wire=", "redisson, rueidis or set-nx"),
            ("key-prefix=a", "key-prefix belongs to wire=set-nx and wire=rueidis"),
            ("wire=redisson&key-prefix=a", "key-prefix belongs to wire=set-nx and wire=rueidis"),
            ("wire=rueidis", "KeyMajority"),
            ("wire=rueidis&spring=a", "spring belongs to wire=set-nx"),
            ("wire=set-nx&majority=2", "majority belongs to wire=rueidis"),
            ("wire=rueidis&majority=0", "majority \"0\""),
            ("wire=rueidis&majority=17", "from 1 to 16"),
            ("wire=redisson&spring=a", "spring belongs to wire=set-nx"),
            ("wire=set-nx&key-prefix=", "key-prefix \"\""),
            ("wire=set-nx&key-prefix=a%0Ab", "control characters"),
            ("wire=set-nx&key-prefix=a&spring=b", "name one of them"),
        ] {
            let error = take(options).unwrap_err().to_string();
            assert!(error.contains(part), "{options}: {error}");
        }
    }
}
