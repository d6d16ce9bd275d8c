//! What a Redis error means for a lock: certainly not done, or unknown.

use leasehold_core::{Error, ErrorKind, Retry, certificate_fault};
use redis::RedisError;

/// Sorts an error by what is known of the request: what the server refuses before it begins was
/// certainly not done; anything else leaves that open.
pub(crate) fn from_redis(error: RedisError) -> Error {
    if let Some(what) = certificate_fault(&error.to_string()) {
        return Error::new(ErrorKind::Refused, format!("{what} ({error})")).with_source(error);
    }
    let code = error.code().unwrap_or_default().to_owned();
    let (kind, what) = match code.as_str() {
        "LOADING" => (ErrorKind::Unavailable, "the server is still loading its data"),
        "BUSY" => (ErrorKind::Unavailable, "the server is busy with somebody's script"),
        "MASTERDOWN" => (ErrorKind::Unavailable, "a replica whose master is down"),
        "TRYAGAIN" | "CLUSTERDOWN" => (ErrorKind::Unavailable, "the cluster is not ready"),
        "OOM" => (ErrorKind::Refused, "the server is full (maxmemory); give it room"),
        // It was demoted: by its name another server may be reached by now.
        "READONLY" => (
            ErrorKind::Unavailable,
            "the server has become a replica, connecting anew; if that does not help, name its master",
        ),
        "NOREPLICAS" => {
            (ErrorKind::Refused, "too few replicas follow the server (min-replicas-to-write)")
        }
        "MISCONF" => (ErrorKind::Refused, "the server cannot save its data and refuses writes"),
        "NOPERM" => (
            ErrorKind::Refused,
            "the user may not do this; see docs/redis.md for the permissions needed",
        ),
        "NOAUTH" => (ErrorKind::Refused, "the server wants a password"),
        "WRONGPASS" => (ErrorKind::Refused, "wrong user or password"),
        _ if error.to_string().contains("switch database") => {
            (ErrorKind::Refused, "the server has no database of this number; see db=N in the URL")
        }
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            (ErrorKind::Refused, "wrong user or password")
        }
        _ if error.kind() == redis::ErrorKind::RESP3NotSupported => (
            ErrorKind::Unsupported,
            "the server does not speak RESP3; Redis 7.0 or newer is needed",
        ),
        _ if is_denied(&error) => (
            ErrorKind::Refused,
            "the user may not do this; see docs/redis.md for the permissions needed",
        ),
        // An error in the middle of a script: what came before it in the batch has been done.
        _ if is_answer(&error) => (ErrorKind::Unavailable, "the server reports an error"),
        _ if error.is_timeout() => (ErrorKind::Unavailable, "the server did not answer in time"),
        _ if error.is_connection_refusal() => {
            (ErrorKind::Unavailable, "nobody listens there; is the server running?")
        }
        _ => (ErrorKind::Unavailable, "the connection failed"),
    };
    // These pass by themselves, so that what is to be ended is tried again.
    let passes = matches!(code.as_str(), "NOREPLICAS" | "MISCONF");
    let said = Error::new(kind, format!("{what} ({error})")).with_source(error);
    if passes { said.with_retry(Retry::Useful) } else { said }
}

/// True when the server says that a command inside a script is not allowed: no right for the first
/// write means that nothing was written.
fn is_denied(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.contains("can't run this command") || detail.contains("ACL failure")
}

/// True when the server has answered with an error.
fn is_answer(error: &RedisError) -> bool {
    matches!(error.kind(), redis::ErrorKind::Server(_) | redis::ErrorKind::Extension)
}

/// True when the server does not know a script (any more).
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript)
}

/// True when the server has become a replica since the connection was made.
pub(crate) fn is_demoted(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let answer = source.and_then(|source| source.downcast_ref::<RedisError>());
    answer.and_then(RedisError::code) == Some("READONLY")
}

/// True when the connection has ended.
pub(crate) fn is_dropped(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let cause = source.and_then(|source| source.downcast_ref::<RedisError>());
    cause.is_some_and(RedisError::is_connection_dropped)
}

/// There is no connection at the moment, and why none could be made, if that was tried.
pub(crate) fn no_connection(cause: Option<&Error>) -> Error {
    let mut what = "no connection to the server at the moment; reconnecting".to_owned();
    if let Some(cause) = cause {
        what = format!("{what} fails: {cause}");
    }
    Error::new(ErrorKind::Unavailable, what)
}

/// The server has answered something that the scripts never say.
pub(crate) fn strange(what: impl std::fmt::Debug) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!("the server gave an answer that is not understood: {what:?}"),
    )
}

/// The record under a key is not ours.
pub(crate) fn foreign(why: u8, key: &str) -> Error {
    let what = match why {
        b'V' => format!("the record {key} is of a newer version; upgrade this program"),
        b'T' => format!("the tokens of {key} are used up (2^53-1)"),
        _ => {
            format!("{key} holds a value that is not a lock of ours; choose another prefix or name")
        }
    };
    Error::new(ErrorKind::Foreign, what)
}
