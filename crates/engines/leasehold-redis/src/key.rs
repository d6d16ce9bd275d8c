//! Converts a lock name to its Redis key, and back.

use std::sync::Arc;

use leasehold_core::Name;

/// What follows the key of a semaphore's record in the names of its keys.
pub(crate) const SEMAPHORE: [&str; 8] = ["", ":t", ":pq", ":ps", ":pe", ":pi", ":pf", ":pm"];

/// Builds `PREFIX{NAME}`: the braces keep all keys of one lock in one slot of a cluster. Braces and
/// percent signs of the name are escaped, so that different names have different keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    start: Arc<str>,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { start: format!("{prefix}:{{").into() }
    }

    pub(crate) fn of(&self, name: &Name) -> String {
        let mut key = String::with_capacity(self.start.len() + name.as_str().len() + 1);
        self.push(name, &mut key);
        key
    }

    /// Appends the key of a name.
    pub(crate) fn push(&self, name: &Name, text: &mut String) {
        text.push_str(&self.start);
        escape(name.as_str(), text);
        text.push('}');
    }

    /// Returns all keys of a lock, in the order of `shared_record.lua`.
    pub(crate) fn all(&self, name: &Name) -> [String; 7] {
        let key = self.of(name);
        ["", ":q", ":r", ":t", ":m", ":i", ":s"].map(|end| format!("{key}{end}"))
    }

    /// Returns all keys of a semaphore, in the order of `semaphore_record.lua`.
    pub(crate) fn of_semaphore(&self, name: &Name) -> [String; 8] {
        let key = self.of(name);
        SEMAPHORE.map(|end| format!("{key}{end}"))
    }

    /// Returns the key of a quorum node's own data. It is not a lock key: it has no braces.
    pub(crate) fn node(&self) -> String {
        format!("{}node", self.start.trim_end_matches('{'))
    }

    /// Returns the name of a key, or `None` if the key is not a lock record.
    pub(crate) fn name(&self, key: &str) -> Option<Name> {
        let escaped = key.strip_prefix(&*self.start)?.strip_suffix('}')?;
        if escaped.contains('}') {
            return None;
        }
        let name = percent_encoding::percent_decode_str(escaped).decode_utf8().ok()?;
        Name::new(name).ok().filter(|name| self.of(name) == key)
    }

    /// Returns a pattern for SCAN that matches the keys of all names with this prefix.
    pub(crate) fn pattern(&self, prefix: &str) -> String {
        let mut escaped = String::new();
        escape(prefix, &mut escaped);
        let mut pattern = String::new();
        for c in self.start.chars().chain(escaped.chars()) {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push_str("*}");
        pattern
    }
}

fn escape(name: &str, key: &mut String) {
    if !name.bytes().any(|byte| matches!(byte, b'{' | b'}' | b'%')) {
        return key.push_str(name);
    }
    for c in name.chars() {
        match c {
            '{' => key.push_str("%7B"),
            '}' => key.push_str("%7D"),
            '%' => key.push_str("%25"),
            other => key.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_key_of_its_own_and_comes_back() {
        let keys = Keys::new("leasehold");
        for name in ["a", "a{b}", "a%7Bb%7D", "}", "%", "锁/1", "*?[x]\\"] {
            let name = Name::new(name).unwrap();
            let key = keys.of(&name);
            assert_eq!(key.matches('{').count(), 1, "{key}");
            assert_eq!(keys.name(&key), Some(name));
        }
        assert_eq!(keys.of(&Name::new("a").unwrap()), "leasehold:{a}");
        assert_eq!((keys.node().as_str(), keys.name("leasehold:node")), ("leasehold:node", None));
        assert_eq!(keys.name("leasehold:{a}:q"), None);
        assert_eq!(keys.name("leasehold:{%41}"), None, "nobody writes A like that");
        assert_eq!(keys.pattern("a*{"), "leasehold:{a\\*%7B*}");
    }
}
