//! Checks whether a connection is encrypted if the URL leaves that to the program.

use std::net::ToSocketAddrs;

use leasehold_core::doctor::Diagnosis;

use crate::address::Target;

/// Warns if the URL prefers TLS, as it does by default, and the program was built without the
/// feature `tls` (`has_tls` is false): the connection is then plain text.
pub(super) fn look(diagnosis: &mut Diagnosis, target: &Target, has_tls: bool) {
    let (prefers, host, port) = match target {
        #[cfg(feature = "postgres")]
        Target::Postgres(options) => {
            use sqlx::postgres::PgSslMode;
            let prefers = matches!(options.get_ssl_mode(), PgSslMode::Prefer | PgSslMode::Allow);
            (prefers && options.get_socket().is_none(), options.get_host(), options.get_port())
        }
        #[cfg(feature = "mysql")]
        Target::MySql(options) => {
            use sqlx::mysql::MySqlSslMode;
            let prefers = matches!(options.get_ssl_mode(), MySqlSslMode::Preferred);
            (prefers && options.get_socket().is_none(), options.get_host(), options.get_port())
        }
        #[cfg(feature = "sqlite")]
        Target::Sqlite(_) => return,
    };
    if has_tls || !prefers || is_here(host, port) {
        return;
    }
    diagnosis.warning(
        "plain-text",
        "the connection is not encrypted: this program was built without TLS, and tls=prefer (the default; \
         sslmode=prefer) then means plain text",
        "an attacker between client and server can read the password and change what is sent",
        "install it with the feature tls, and set tls=verify; on a private network write tls=off, which says \
         the same in the URL",
    );
}

/// Returns true if the server is on this machine.
fn is_here(host: &str, port: u16) -> bool {
    host.starts_with('/')
        || (host, port).to_socket_addrs().is_ok_and(|mut all| all.all(|one| one.ip().is_loopback()))
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use leasehold_core::StoreUrl;

    use super::*;
    use crate::address::Address;

    #[test]
    fn preferred_tls_is_plain_text_in_a_program_without_tls() {
        for (url, has_tls, is_plain) in [
            ("postgres://192.0.2.1/app", false, true),
            ("postgres://192.0.2.1/app?sslmode=prefer", false, true),
            ("mysql://192.0.2.1/app?tls=prefer", false, true),
            ("postgres://192.0.2.1/app", true, false),
            ("postgres://192.0.2.1/app?tls=off", false, false),
            ("postgres://192.0.2.1/app?tls=require", false, false),
            ("postgres://127.0.0.1/app", false, false),
            ("mysql://[::1]/app", false, false),
        ] {
            let address = Address::parse(StoreUrl::parse(url).unwrap()).unwrap();
            let mut diagnosis = Diagnosis::at("here");
            look(&mut diagnosis, &address.target, has_tls);
            let found = diagnosis.findings.iter().any(|finding| finding.id == "plain-text");
            assert_eq!(found, is_plain, "{url}, TLS: {has_tls}");
        }
    }
}
