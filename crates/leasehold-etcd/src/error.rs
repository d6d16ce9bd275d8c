//! What an error of etcd means for a lock: certainly not done, or unknown.

use etcd_client::Error as EtcdError;
use leasehold_core::{Error, ErrorKind, Retry, certificate_fault};

/// What is said when the other side says nothing.
pub(crate) const HANGS_UP: &str = "the connection failed";

/// What an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The lease of the request does not exist (any more): nothing was done.
    NoLease,
    /// It may pass when another member is asked: nobody listens there, so nothing was done.
    Unreached,
    /// It may pass when another member is asked, or by itself; whether it was done is unknown.
    Unsure,
    /// It was refused for good.
    Final,
}

/// Sorts an error.
pub(crate) fn sort(error: EtcdError) -> (Cause, Error) {
    let text = error.to_string();
    let (cause, kind, what) = judge(&text, &causes(&error));
    let said = Error::new(kind, format!("{what} ({})", said(&error))).with_source(Said(text));
    // The space comes back when somebody sees to it, and what is to be ended is tried again.
    let passes = kind == ErrorKind::Refused && text_is(&said, "space exceeded");
    (cause, if passes { said.with_retry(Retry::Useful) } else { said })
}

fn text_is(error: &Error, part: &str) -> bool {
    error.message().contains(part)
}

/// The words of the error alone: the library's own text repeats its structure.
#[derive(Debug)]
struct Said(String);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Said {}

/// What the server says, or what stands at the bottom of what failed on the way.
fn said(error: &EtcdError) -> String {
    let causes = causes(error);
    match error {
        EtcdError::GRpcStatus(status) if status.message().starts_with("etcdserver") => {
            status.message().to_owned()
        }
        EtcdError::GRpcStatus(status) => match causes.rsplit_once(": ") {
            Some((_, last)) => last.to_owned(),
            None => status.message().to_owned(),
        },
        _ => causes,
    }
}

/// The error and all that caused it, from the top down.
fn causes(error: &EtcdError) -> String {
    let mut text = match error {
        EtcdError::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    };
    let top: &(dyn std::error::Error + 'static) = match error {
        EtcdError::GRpcStatus(status) => status,
        EtcdError::TransportError(error) => error,
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

/// What is known of the request, and what people are to do.
fn judge(text: &str, causes: &str) -> (Cause, ErrorKind, &'static str) {
    use Cause::{Final, NoLease, Unreached, Unsure};
    use ErrorKind::{Refused, Unavailable};
    let has = |part: &str| text.contains(part) || causes.contains(part);
    if has("requested lease not found") || has("lease not found") {
        return (NoLease, Unavailable, "the lease has ended");
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
            "the server has no users; leave user and password out of the URL, or enable \
             authentication there",
        ),
        (
            "user name is empty",
            Final,
            Refused,
            "the server wants a user and a password; put them into the URL",
        ),
        (
            "permission denied",
            Final,
            Refused,
            "the user may not do this; it needs a role that may read and write all keys below the \
             prefix, see docs/etcd.md",
        ),
        ("request is too large", Final, Refused, "the request is larger than the server takes"),
        ("too many operations in txn", Final, Refused, "the server's --max-txn-ops is below 128"),
        (
            "corrupt cluster",
            Final,
            Refused,
            "the members disagree about their data (CORRUPT alarm); repair the ensemble first",
        ),
        ("too many requests", Unsure, Unavailable, "the server has more to do than it can"),
        ("no leader", Unsure, Unavailable, "the members have no leader at the moment"),
        ("leader changed", Unsure, Unavailable, "the members are choosing a leader"),
        ("not leader", Unsure, Unavailable, "the members are choosing a leader"),
        ("invalid auth token", Unsure, Unavailable, "the login has expired, logging in again"),
        ("auth store is old", Unsure, Unavailable, "users or roles have just been changed"),
        ("request timed out", Unsure, Unavailable, "the members did not agree in time"),
        ("server stopped", Unsure, Unavailable, "the server is being stopped"),
        (
            "Connection refused",
            Unreached,
            Unavailable,
            "nobody listens there; is the server running?",
        ),
        ("dns error", Unreached, Unavailable, "the host is not known"),
        ("failed to lookup address", Unreached, Unavailable, "the host is not known"),
        (
            "Unimplemented",
            Final,
            ErrorKind::Unsupported,
            "the server does not speak etcd's version 3",
        ),
    ] {
        if has(part) {
            return (cause, kind, what);
        }
    }
    match causes.starts_with("etcdserver") {
        true => (Unsure, Unavailable, "the server reports an error"),
        false => (Unsure, Unavailable, HANGS_UP),
    }
}

/// What is wrong with a certificate, if that is what the connection failed of.
fn certificate(causes: &str) -> Option<&'static str> {
    if causes.contains("CertificateRequired") || causes.contains("certificate required") {
        return Some("the server wants a client certificate; name it with tls-cert and tls-key");
    }
    if causes.contains("BadCertificate") || causes.contains("bad certificate") {
        return Some("the server does not accept the client certificate of tls-cert, or got none");
    }
    if causes.contains("InvalidContentType") || causes.contains("corrupt message") {
        return Some("the server does not speak TLS there; write etcd: instead of etcds:");
    }
    certificate_fault(causes)
}

/// The server has answered something that it never should.
pub(crate) fn strange(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!("the server gave an answer that is not understood: {what}"),
    )
}

/// The leader has changed between two answers, of which one must vouch for the other.
pub(crate) fn leader_changed() -> Error {
    Error::new(ErrorKind::Unavailable, "the members have just chosen another leader")
}
