//! Classifies errors of etcd: the request was certainly not executed, or its result is unknown.

use leasehold_core::{Error, ErrorKind, Retry, certificate_fault};
use leasehold_etcd_api::Error as EtcdError;

/// The message if the server gives no reason.
pub(crate) const HANGS_UP: &str = "the connection failed";
const UNKNOWN: &str = "the server returned an error";

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The lease of the request does not exist or has expired; nothing was executed.
    NoLease,
    /// The lease that was to be granted exists: an earlier copy of the request has granted it.
    LeaseExists,
    /// There is no connection to the server, so nothing was executed. Another member may succeed.
    Unreached,
    /// The result is unknown. Another member, or a later retry, may succeed.
    Unsure,
    /// The server refused the request; a retry does not help.
    Final,
}

/// Classifies an error.
pub(crate) fn sort(error: EtcdError) -> (Cause, Error) {
    let text = error.to_string();
    let (cause, kind, what) = judge(&text, &causes(&error));
    let said = Error::new(kind, format!("{what} ({})", said(&error))).with_source(Said(text));
    // An operator can free space, so a release is retried.
    let passes = kind == ErrorKind::Refused && text_is(&said, "space exceeded");
    (cause, if passes { said.with_retry(Retry::Useful) } else { said })
}

fn text_is(error: &Error, part: &str) -> bool {
    error.message().contains(part)
}

/// The text of the error alone: the library's display also repeats its structure.
#[derive(Debug)]
struct Said(String);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Said {}

/// Returns the server's message, or the root cause of a failed connection.
fn said(error: &EtcdError) -> String {
    let causes = causes(error);
    match error {
        EtcdError::Status(status) if status.message().starts_with("etcdserver") => {
            status.message().to_owned()
        }
        EtcdError::Status(status) => match causes.rsplit_once(": ") {
            Some((_, last)) => last.to_owned(),
            None => status.message().to_owned(),
        },
        _ => causes,
    }
}

/// Returns the error and all its causes, outermost first.
fn causes(error: &EtcdError) -> String {
    let mut text = match error {
        EtcdError::Status(status) => status.message().to_owned(),
        other => other.to_string(),
    };
    let top: &(dyn std::error::Error + 'static) = match error {
        EtcdError::Status(status) => status,
        EtcdError::Transport(error) => error,
        other => other,
    };
    let mut next = top.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// Returns the class of the error and a message with what to do.
fn judge(text: &str, causes: &str) -> (Cause, ErrorKind, &'static str) {
    use Cause::{Final, LeaseExists, NoLease, Unreached, Unsure};
    use ErrorKind::{Refused, Unavailable};
    let has = |part: &str| text.contains(part) || causes.contains(part);
    if has("requested lease not found") || has("lease not found") {
        return (NoLease, Unavailable, "the lease has expired");
    }
    if has("lease already exists") {
        return (LeaseExists, Unavailable, UNKNOWN);
    }
    if let Some(what) = certificate(causes) {
        return (Final, Refused, what);
    }
    for (part, cause, kind, what) in [
        (
            "database space exceeded",
            Final,
            Refused,
            "the server is full; compact and defragment it, or raise --quota-backend-bytes, then \
             disarm its alarm",
        ),
        ("authentication failed", Final, Refused, "wrong user or password"),
        (
            "authentication is not enabled",
            Final,
            Refused,
            "the server has authentication disabled; remove user and password from the URL, or enable \
             authentication there",
        ),
        (
            "user name is empty",
            Final,
            Refused,
            "the server requires a user and a password; add them to the URL",
        ),
        (
            "permission denied",
            Final,
            Refused,
            "the user may not do this; it needs a role that may read and write all keys below the \
             prefix, see docs/etcd.md",
        ),
        ("request is too large", Final, Refused, "the request is larger than the server allows"),
        ("too many operations in txn", Final, Refused, "the server's --max-txn-ops is below 128"),
        (
            "corrupt cluster",
            Final,
            Refused,
            "the members disagree about their data (CORRUPT alarm); repair the cluster first",
        ),
        ("too many requests", Unsure, Unavailable, "the server is overloaded"),
        ("no leader", Unsure, Unavailable, "the cluster has no leader at the moment"),
        ("leader changed", Unsure, Unavailable, "the cluster is electing a leader"),
        ("not leader", Unsure, Unavailable, "the cluster is electing a leader"),
        ("invalid auth token", Unsure, Unavailable, "the login has expired, logging in again"),
        ("auth store is old", Unsure, Unavailable, "users or roles have just changed"),
        (
            "request timed out",
            Unsure,
            Unavailable,
            "the cluster did not commit the request in time",
        ),
        ("server stopped", Unsure, Unavailable, "the server is stopping"),
        (
            "Connection refused",
            Unreached,
            Unavailable,
            "nothing listens on this port; is the server running?",
        ),
        (
            "tcp connect error",
            Unreached,
            Unavailable,
            "cannot connect; check the host and port, firewalls, and connect-timeout in the URL",
        ),
        ("dns error", Unreached, Unavailable, "the host name cannot be resolved"),
        ("failed to lookup address", Unreached, Unavailable, "the host name cannot be resolved"),
        (
            "Unimplemented",
            Final,
            ErrorKind::Unsupported,
            "the server does not support version 3 of etcd's API",
        ),
    ] {
        if has(part) {
            return (cause, kind, what);
        }
    }
    match causes.starts_with("etcdserver") {
        true => (Unsure, Unavailable, UNKNOWN),
        false => (Unsure, Unavailable, HANGS_UP),
    }
}

/// Returns a message if the connection failed because of a certificate.
fn certificate(causes: &str) -> Option<&'static str> {
    if causes.contains("CertificateRequired") || causes.contains("certificate required") {
        return Some("the server requires a client certificate; name it with tls-cert and tls-key");
    }
    if causes.contains("BadCertificate") || causes.contains("bad certificate") {
        return Some(
            "the server did not accept the client certificate of tls-cert, or received none",
        );
    }
    if causes.contains("InvalidContentType") || causes.contains("corrupt message") {
        return Some("the server does not use TLS on this port; write etcd: instead of etcds:");
    }
    certificate_fault(causes)
}

/// Returns the error for a call without an answer.
pub(crate) fn no_answer() -> Error {
    Error::new(ErrorKind::Unavailable, "the server did not answer in time")
}

/// Returns the error for an answer that violates the protocol.
pub(crate) fn strange(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Foreign, format!("unexpected answer from the server: {what}"))
}

/// Returns the error for leases that expire before a key is put under them.
pub(crate) fn leases_expire() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "leases expired immediately after they were granted; check the clock and load of the \
         cluster",
    )
}

/// Returns the error for a change of the leader between two answers that must come from one leader.
pub(crate) fn leader_changed() -> Error {
    Error::new(ErrorKind::Unavailable, "the cluster has just elected another leader")
}
