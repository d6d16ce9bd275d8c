//! Random secrets, and comparing them in constant time.

use std::fmt;

use leasehold::{Error, ErrorKind};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The hash of a secret. The server keeps no secret itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hashed([u8; 32]);

impl Hashed {
    /// Hashes a secret.
    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Hashes parts that belong together, so that no two lists of parts have the same bytes.
    pub(crate) fn of_parts(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }

    /// Compares in constant time.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Returns it in hexadecimal.
    pub(crate) fn hex(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashed(..)")
    }
}

/// Returns a new secret of 192 random bits, in hexadecimal.
pub(crate) fn random() -> Result<String, Error> {
    let mut bytes = [0; 24];
    let no_bits = |_| {
        let what = "the system provides no random bits (getrandom failed)";
        Error::new(ErrorKind::Unavailable, what)
    };
    getrandom::fill(&mut bytes).map_err(no_bits)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_only_the_same_one_compares_equal() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 48);
        assert!(Hashed::of(&one).is(&Hashed::of(&one)));
        assert!(!Hashed::of(&one).is(&Hashed::of(&other)));
        assert_ne!(Hashed::of_parts(&["a", "bc"]), Hashed::of_parts(&["ab", "c"]));
        assert!(!format!("{:?}", Hashed::of(&one)).contains(&one));
    }
}
