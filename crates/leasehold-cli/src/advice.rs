//! Adds the next step to an error, which depends on the kind of store.

use std::env;
use std::error::Error as _;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use leasehold::{Error, ErrorKind, StoreUrl};
use nix::unistd::{Uid, User, geteuid};

use crate::failure::{Failure, code};
use crate::features;
use crate::locate::Located;

/// Where another store can be named.
const ELSEWHERE: &str = "(--store, LEASEHOLD_STORE or the config file)";

/// The password for PostgreSQL if the URL has none.
const POSTGRES: &str = "PGPASSWORD";

/// The kind of store that errors come from.
#[derive(Clone, Debug)]
pub(crate) enum Advice {
    /// A directory on this machine.
    Directory(PathBuf),
    /// Another store, by its URL without users, passwords and options, and where its password is
    /// from.
    Server(String, String),
    /// A URL that cannot be parsed.
    Unknown,
}

impl Advice {
    /// Creates the advice for the store of this URL.
    pub(crate) fn for_store(store: &Located) -> Self {
        match StoreUrl::parse(&store.url) {
            Ok(url) if url.scheme() == "file" => {
                Self::Directory(url.path().unwrap_or_default().into())
            }
            Ok(url) => Self::Server(url.to_string(), password(url, store.by)),
            Err(_) => Self::Unknown,
        }
    }

    /// Converts an error to the failure of the command, with the next step.
    pub(crate) fn on(&self, error: Error) -> Failure {
        let code = match error.kind() {
            ErrorKind::Timeout => code::CONFLICT,
            ErrorKind::Lost => code::LOST,
            ErrorKind::Unavailable
            | ErrorKind::Refused
            | ErrorKind::Foreign
            | ErrorKind::Closed => code::UNAVAILABLE,
            _ => code::OWN,
        };
        let failure = Failure::of_error(code, &error);
        match self.next_step(&error) {
            Some(step) => failure.next(step),
            None => failure,
        }
    }

    fn next_step(&self, error: &Error) -> Option<String> {
        match (self, error.kind()) {
            // The servers run; the error names the command that helps.
            (Self::Server(store, _), ErrorKind::Unavailable)
                if error.message().contains("`leasehold quorum init`") =>
            {
                Some(format!("the store is {store} {ELSEWHERE}"))
            }
            (Self::Server(store, _), ErrorKind::Unavailable) => {
                Some(format!("check that {store} is the right store {ELSEWHERE} and that it runs"))
            }
            (Self::Server(store, password), ErrorKind::Refused) if is_about_the_user(error) => {
                let server = blamed_node(error).unwrap_or(store);
                Some(format!(
                    "check the credentials for {server} ({password}) and this user's permissions"
                ))
            }
            // Most refusals contain what to change, but not always where.
            (Self::Server(store, _), ErrorKind::Refused | ErrorKind::Foreign)
                if !error.message().contains(store.as_str()) =>
            {
                Some(format!("the store is {store} {ELSEWHERE}"))
            }
            (_, ErrorKind::Invalid) if !features::of_error(error.message()).is_empty() => {
                Some(features::install(&features::of_error(error.message())))
            }
            (_, ErrorKind::Invalid) if error.message().starts_with("store URL") => {
                Some(format!("correct the URL of the store {ELSEWHERE}"))
            }
            // The error itself contains most next steps; this finds the owner of a directory.
            (Self::Directory(path), ErrorKind::Refused) if is_permission(error) => owner(path),
            _ => None,
        }
    }
}

/// Returns where the password of a store is from, and never the password.
fn password(mut url: StoreUrl, by: &str) -> String {
    let in_place =
        |url: &StoreUrl| url.place().rsplit_once('@').is_some_and(|(login, _)| login.contains(':'));
    let own = match url.take("password-file") {
        Some(file) => format!("the password in the file {file:?}"),
        None if in_place(&url) => format!("the password in the URL of {by}"),
        None if url.scheme().starts_with("postgres") && env::var_os(POSTGRES).is_some() => {
            format!("the password in {POSTGRES}")
        }
        None => format!("the URL of {by} has no password"),
    };
    match (url.take("sentinel-password-file"), url.take("sentinel-password")) {
        (Some(file), _) => format!("{own}; for the sentinels, that in the file {file:?}"),
        (_, Some(_)) => format!("{own}; for the sentinels, sentinel-password in the URL of {by}"),
        _ => own,
    }
}

/// Returns the node of a quorum that an error is about, such as `node host:6379`.
fn blamed_node(error: &Error) -> Option<&str> {
    let (node, _) = error.message().split_once(": ")?;
    node.strip_prefix("node ").map(|_| node)
}

/// Returns true if the server does not know this user or password, or denies access.
fn is_about_the_user(error: &Error) -> bool {
    ["password", "the user may not"].iter().any(|words| error.message().contains(words))
}

fn is_permission(error: &Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::PermissionDenied)
}

/// Advises about a directory that another user owns, or that only another user can create.
fn owner(path: &Path) -> Option<String> {
    let ours = geteuid();
    let mut is_absent = false;
    for there in path.ancestors() {
        match fs::metadata(there) {
            Ok(meta) if Uid::from_raw(meta.uid()) == ours => return None,
            Ok(_) if is_absent => {
                let (path, name) = (path.display(), name(ours));
                return Some(format!(
                    "create it for this user alone (sudo install -d -m 700 -o {name} {path}), \
                     or choose another directory {ELSEWHERE}"
                ));
            }
            Ok(meta) => {
                let (there, name) = (there.display(), name(Uid::from_raw(meta.uid())));
                return Some(format!(
                    "a directory of locks must belong to one user (mode 0700), and {there} belongs to \
                     {name}: choose another directory {ELSEWHERE}, or a server to share locks"
                ));
            }
            Err(error) => is_absent |= error.kind() == io::ErrorKind::NotFound,
        }
    }
    None
}

fn name(user: Uid) -> String {
    match User::from_uid(user) {
        Ok(Some(user)) => user.name,
        _ => user.to_string(),
    }
}
