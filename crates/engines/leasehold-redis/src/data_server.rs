//! The client of one server, for programs that store other data than locks on it.

use leasehold_core::{Result, StoreUrl};
use redis::Client;

use crate::address::Address;

/// Parses `redis://[user[:password]@]host[:port][/db]`, `rediss://` and `redis+unix:/path`, with
/// the options of [`connect`](crate::connect()) that do not concern locks. Returns a client that is
/// not connected and uses RESP2.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for any other URL, an unknown option,
/// or a file that cannot be read.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of engines and of the other crates of Leasehold.
pub fn data_client(url: &str) -> Result<Client> {
    let mut url = StoreUrl::parse(url)?;
    if !matches!(url.scheme(), "redis" | "rediss" | "redis+unix") {
        return Err(StoreUrl::invalid(
            "not a URL of one Redis server; write redis://host:port/db, rediss://host or \
             redis+unix:/path",
        ));
    }
    if url.take("prefix").is_some() {
        return Err(StoreUrl::invalid("the option prefix is for locks only; remove it"));
    }
    Ok(Address::parse_for_data(url)?.client)
}

#[cfg(test)]
mod tests {
    use super::data_client;

    #[test]
    fn options_of_the_lock_store_apply_to_a_client_for_data() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "s3cret\n").unwrap();
        let file = file.path().display();
        for (url, login, db) in [
            (format!("redis://h?password-file={file}"), (None, Some("s3cret")), 0),
            (format!("redis://app@h/2?password-file={file}"), (Some("app"), Some("s3cret")), 2),
            (
                format!("redis+unix:/r.sock?user=app&db=3&password-file={file}"),
                (Some("app"), Some("s3cret")),
                3,
            ),
            ("redis://h".into(), (None, None), 0),
        ] {
            let client = data_client(&url).unwrap();
            let settings = client.get_connection_info().redis_settings();
            assert_eq!((settings.username(), settings.password()), login, "{url}");
            assert_eq!(settings.db(), db, "{url}");
        }
    }

    #[test]
    fn an_option_that_would_be_ignored_is_refused() {
        for (url, named) in [
            ("redis://h?prefix=app", "prefix"),
            ("redis://h?admission=strict", "admission"),
            (
                "redis://h?protocol=resp3",
                "\"protocol\"; redis: the options are db, password-file, tls-ca, tls-cert, tls-key, user",
            ),
            ("redis://h?password-file=/nope/s3", "cannot be read"),
            ("redlock://a,b,c", "not a URL of one Redis server"),
        ] {
            let error = data_client(url).unwrap_err().to_string();
            assert!(error.contains(named), "{url}: {error}");
        }
    }
}
