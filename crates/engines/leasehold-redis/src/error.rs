//! Maps a Redis error to its meaning for a lock: certainly not done, or unknown.

use leasehold_core::backend::{is_a_latch, is_a_semaphore};
use leasehold_core::{Error, ErrorKind, Retry, certificate_fault};
use redis::RedisError;

const MAY_NOT: &str = "the user may not do this";

const NO_PASSWORD: &str = "the server requires a password; put it into the URL (redis://:PASSWORD@host), \
                           or name its file with the option password-file";

const NO_DATABASE: &str = "the server has no database of this number; its setting `databases` is how many \
                           it has, numbered from 0 (16 by default); correct /N or db=N in the URL";

/// Classifies an error by what is known of the request. A request that the server refused before it
/// began was certainly not done; after any other error that is unknown.
pub(crate) fn from_redis(error: RedisError) -> Error {
    if let Some(what) = certificate_fault(&error.to_string()) {
        return Error::new(ErrorKind::Refused, format!("{what} ({error})")).with_source(error);
    }
    let (kind, what) = meaning(&error);
    if what == NO_DATABASE {
        // The library's text is that of a debugger, and says nothing more.
        return Error::new(kind, what).with_source(error);
    }
    let next = match what {
        MAY_NOT => "; docs/redis.md lists the required permissions",
        _ => "",
    };
    // These errors are temporary, so the client repeats ends.
    let passes = matches!(error.code(), Some("NOREPLICAS" | "MISCONF"));
    let said = Error::new(kind, format!("{what}{next} ({error})")).with_source(error);
    if passes { said.with_retry(Retry::Useful) } else { said }
}

/// Adds the number to the error for a database that the server does not have.
pub(crate) fn of_database(error: Error, client: &redis::Client) -> Error {
    if error.message() != NO_DATABASE {
        return error;
    }
    let db = client.get_connection_info().redis_settings().db();
    let what = NO_DATABASE.replacen("database of this number", &format!("database {db}"), 1);
    Error::new(error.kind(), what).with_retry(error.retry()).with_source(error)
}

/// Returns the kind and the meaning of an error of a Redis server.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of engines and of the other crates of Leasehold.
pub fn meaning(error: &RedisError) -> (ErrorKind, &'static str) {
    match error.code().unwrap_or_default() {
        "LOADING" => (ErrorKind::Unavailable, "the server is still loading its data"),
        "BUSY" => {
            (ErrorKind::Unavailable, "the server is busy with a script; end it with SCRIPT KILL")
        }
        "MASTERDOWN" => (ErrorKind::Unavailable, "the server is a replica whose master is down"),
        "TRYAGAIN" | "CLUSTERDOWN" => (ErrorKind::Unavailable, "the cluster is not ready"),
        "OOM" => (
            ErrorKind::Refused,
            "the server is full (maxmemory); raise maxmemory or remove other data",
        ),
        // It was demoted: its name may lead to another server by now.
        "READONLY" => (
            ErrorKind::Unavailable,
            "the server became a replica; reconnecting. If this repeats, name the master in the URL",
        ),
        "NOREPLICAS" => (
            ErrorKind::Refused,
            "too few replicas follow the server (min-replicas-to-write); restore the replicas",
        ),
        "MISCONF" => (
            ErrorKind::Refused,
            "the server cannot save its data and refuses writes; check its log and disk",
        ),
        "NOPERM" => (ErrorKind::Refused, MAY_NOT),
        "NOAUTH" => (ErrorKind::Refused, NO_PASSWORD),
        "WRONGPASS" => (ErrorKind::Refused, "wrong user or password"),
        _ if is_denied(error) => (ErrorKind::Refused, MAY_NOT),
        _ if error.to_string().contains("switch database")
            && error.to_string().contains("DB index") =>
        {
            (ErrorKind::Refused, NO_DATABASE)
        }
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            (ErrorKind::Refused, "wrong user or password")
        }
        _ if error.kind() == redis::ErrorKind::RESP3NotSupported => (
            ErrorKind::Unsupported,
            "the server does not speak RESP3; Redis 7.0 or newer is needed",
        ),
        // A long request to a server that requires a password, on a connection without HELLO.
        _ if error.to_string().contains("Protocol error: unauthenticated") => {
            (ErrorKind::Refused, NO_PASSWORD)
        }
        // An error in the middle of a script: earlier requests of the batch have been done.
        _ if is_answer(error) => (ErrorKind::Unavailable, "the server returned an error"),
        _ if error.is_timeout() => (ErrorKind::Unavailable, "the server did not answer in time"),
        _ if error.is_connection_refusal() => {
            (ErrorKind::Unavailable, "no server listens there; is the server running?")
        }
        _ => (ErrorKind::Unavailable, "the connection failed"),
    }
}

/// Returns true if the server denies a command inside a script, or the command that selects a
/// database. Without the right to the first write, nothing was written.
fn is_denied(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    let denied = [
        "can't run this command",
        "ACL failure",
        "has no permissions",
        "executing the script can't",
    ];
    denied.iter().any(|said| detail.contains(said))
}

/// Returns true if the server answered with an error.
fn is_answer(error: &RedisError) -> bool {
    matches!(error.kind(), redis::ErrorKind::Server(_) | redis::ErrorKind::Extension)
}

/// Returns true if the server does not know a script (any more).
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript)
}

/// Returns true if the server became a replica after the connection was made.
pub(crate) fn is_demoted(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let answer = source.and_then(|source| source.downcast_ref::<RedisError>());
    answer.and_then(RedisError::code) == Some("READONLY")
}

/// Returns true if the connection has ended.
pub(crate) fn is_dropped(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let cause = source.and_then(|source| source.downcast_ref::<RedisError>());
    cause.is_some_and(RedisError::is_connection_dropped)
}

/// The error without a connection, with the reason if a reconnect has failed.
pub(crate) fn no_connection(cause: Option<&Error>) -> Error {
    let mut what = "no connection to the server at the moment; reconnecting".to_owned();
    if let Some(cause) = cause {
        what = format!("{what} fails: {cause}");
    }
    Error::new(ErrorKind::Unavailable, what)
}

/// The error for an answer that the scripts never return.
pub(crate) fn strange(what: impl std::fmt::Debug) -> Error {
    Error::new(ErrorKind::Foreign, format!("the server sent an unexpected answer: {what:?}"))
}

/// The error for a record that is not a lock of this program.
pub(crate) fn foreign(why: u8, key: &str) -> Error {
    let what = match why {
        b'K' => return is_a_semaphore(),
        b'L' => return is_a_latch(),
        b'W' => format!(
            "clients with the option wire use the lock {key}, and this client would not exclude them; give it the option \
             also with their format, until the last of them has ended for five minutes"
        ),
        b'V' => format!("the record {key} has a newer version; upgrade this program"),
        b'T' => {
            format!("the lock {key} has no token left (2^53-1 was reached); use another lock name")
        }
        _ => {
            format!(
                "{key}, {key}:q or {key}:t holds a value that is not a lock; choose another \
                 prefix or name"
            )
        }
    };
    Error::new(ErrorKind::Foreign, what)
}
