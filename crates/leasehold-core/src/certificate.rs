//! Explains errors of a server's TLS certificate by the text that rustls returns.

/// Returns an explanation with a next step if a connection failed because of the server's
/// certificate. `None` if `said`, an error with its causes, is about something else.
///
/// **Unstable**, as [`backend`](crate::backend) is: it is for authors of engines.
pub fn certificate_fault(said: &str) -> Option<&'static str> {
    let (_, what) = said.split_once("invalid peer certificate: ")?;
    Some(match what {
        _ if what.starts_with("Expired") || what.starts_with("certificate expired") => {
            "the server's certificate has expired; renew it on the server"
        }
        _ if what.starts_with("UnknownIssuer") || what.starts_with("BadSignature") => {
            "the server's certificate is from an authority that is not trusted; name the \
             authority with tls-ca"
        }
        _ if what.starts_with("NotValidForName") || what.contains("not valid for name") => {
            "the server's certificate is for another host; use a host name of the certificate"
        }
        _ => "the server's certificate is not accepted",
    })
}

#[cfg(test)]
mod tests {
    use super::certificate_fault;

    #[test]
    fn what_is_wrong_with_a_certificate_is_said_with_a_next_step() {
        for (said, part) in [
            ("io: invalid peer certificate: Expired", "renew"),
            ("invalid peer certificate: certificate expired: verified at 1", "renew"),
            ("invalid peer certificate: UnknownIssuer", "tls-ca"),
            ("invalid peer certificate: NotValidForName", "another host"),
            ("invalid peer certificate: certificate not valid for name \"x\"", "another host"),
            ("invalid peer certificate: BadEncoding", "not accepted"),
        ] {
            assert!(certificate_fault(said).is_some_and(|told| told.contains(part)), "{said}");
        }
        assert_eq!(certificate_fault("Connection refused"), None);
    }
}
