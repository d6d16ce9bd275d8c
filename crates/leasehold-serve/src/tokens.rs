//! The token file: who may read, hold locks, and end leases by force.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use leasehold::{Error, ErrorKind};

use crate::secret::Hashed;

/// The shortest token, in bytes.
const SHORTEST: usize = 24;

/// What a caller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// See stores and locks.
    pub(crate) read: bool,
    /// Acquire and release locks.
    pub(crate) hold: bool,
    /// End leases of others.
    pub(crate) force: bool,
}

/// One of the roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    Hold,
    Force,
}

/// A caller: its name, for limits and the audit, and its roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) name: String,
    pub(crate) roles: Roles,
}

/// The tokens of a file.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<(Hashed, Principal)>);

impl Roles {
    pub(crate) const READ: Self = Self { read: true, hold: false, force: false };
    pub(crate) const ALL: Self = Self { read: true, hold: true, force: true };

    /// Returns true if a caller with these roles has this one.
    pub(crate) fn has(self, role: Role) -> bool {
        match role {
            Role::Read => self.read,
            Role::Hold => self.hold,
            Role::Force => self.force,
        }
    }
}

impl Role {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Hold => "hold",
            Self::Force => "force",
        }
    }
}

impl Tokens {
    /// Reads a file of lines `ROLE[,ROLE] NAME TOKEN`.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let cannot = |error: std::io::Error| {
            let what = format!("--token-file {shown}: cannot read it: {error}");
            Error::new(ErrorKind::Invalid, what).with_source(error)
        };
        let found = fs::metadata(path).map_err(cannot)?;
        if !found.is_file() {
            let what = format!("--token-file {shown}: it is no regular file; name one");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let mode = found.mode();
        if mode & 0o077 != 0 {
            let what = format!(
                "--token-file {shown}: other users may read or change it (mode {:03o}); \
                 allow only its owner: chmod 600 {shown}",
                mode & 0o777
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let text = fs::read_to_string(path).map_err(cannot)?;
        Self::parse(&text)
            .map_err(|why| Error::new(ErrorKind::Invalid, format!("--token-file {shown}: {why}")))
    }

    /// The error never shows a token.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = format!("line {}", index + 1);
            let words: Vec<&str> = line.split_whitespace().collect();
            let [roles, name, token] = words[..] else {
                return Err(format!("{at}: write ROLE[,ROLE] NAME TOKEN"));
            };
            let roles = parse_roles(roles)
                .ok_or_else(|| format!("{at}: a role is unknown; use read, hold and force"))?;
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "{at}: the token has characters that a header cannot carry; use letters, digits \
                     and punctuation of ASCII"
                ));
            }
            if token.len() < SHORTEST {
                return Err(format!(
                    "{at}: the token is too short; use at least {SHORTEST} random characters, \
                     such as those of: openssl rand -hex 24"
                ));
            }
            let hashed = Hashed::of(token);
            if tokens.iter().any(|(known, _): &(Hashed, _)| known.is(&hashed)) {
                return Err(format!("{at}: the token is in the file twice; give each its own"));
            }
            tokens.push((hashed, Principal { name: name.to_owned(), roles }));
        }
        if tokens.is_empty() {
            return Err("it has no token; write lines of ROLE[,ROLE] NAME TOKEN".to_owned());
        }
        Ok(Self(tokens))
    }

    /// Returns the caller of a token. It compares with every token, in constant time.
    pub(crate) fn find(&self, token: &str) -> Option<&Principal> {
        let hashed = Hashed::of(token);
        let mut found = None;
        for (known, principal) in &self.0 {
            if known.is(&hashed) {
                found = Some(principal);
            }
        }
        found
    }
}

/// A role brings those before it: who may hold may read.
fn parse_roles(text: &str) -> Option<Roles> {
    let mut roles = Roles::READ;
    for word in text.split(',') {
        match word {
            "read" => {}
            "hold" => roles.hold = true,
            "force" => roles.force = true,
            _ => return None,
        }
    }
    Some(roles)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef01234567";

    #[test]
    fn a_token_has_the_roles_of_its_line() {
        let text = format!("# people\nread eve {TOKEN}a\n\nhold,force adam {TOKEN}b\n");
        let tokens = Tokens::parse(&text).unwrap();
        assert_eq!(tokens.find(&format!("{TOKEN}a")).unwrap().roles, Roles::READ);
        let adam = tokens.find(&format!("{TOKEN}b")).unwrap();
        assert_eq!((adam.name.as_str(), adam.roles), ("adam", Roles::ALL));
        assert_eq!(tokens.find(TOKEN), None);
        assert_eq!(tokens.find(""), None);
    }

    #[test]
    fn a_wrong_line_is_named_without_its_token() {
        for (text, part) in [
            (format!("read {TOKEN}"), "line 1"),
            (format!("\nadmin eve {TOKEN}"), "line 2: a role"),
            ("read eve secret".to_owned(), "too short"),
            (format!("read a {TOKEN}\nread b {TOKEN}"), "twice"),
            (String::new(), "no token"),
        ] {
            let error = Tokens::parse(&text).unwrap_err();
            assert!(error.contains(part) && !error.contains(TOKEN), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
