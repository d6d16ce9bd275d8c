//! TLS: the URL decides what happens, and a client sends nothing to an unverified server.

use leasehold_core::ErrorKind;
use leasehold_test_servers::{Certificates, MariaDb, Postgres};

use crate::{connect, try_connect};

pub(crate) async fn postgres_is_used_over_tls() {
    let right = Certificates::make().unwrap();
    let server = Postgres::start_tls(&[], &right).unwrap();
    let place = ServerAddress::of(&server.url(), &right);
    place.is_checked(&Certificates::make().unwrap()).await;
    // A waiter is notified over TLS too, and both ends verify each other.
    let url = place.with(&place.known());
    let (one, two) = (connect(&url).await, connect(&url).await);
    let guard = one.lock("a").acquire().await.unwrap();
    let lock = two.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let theirs = |what: &str| {
        server
            .sql(&format!(
                "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) \
                 WHERE application_name = 'leasehold' AND {what}"
            ))
            .unwrap()
    };
    // The earlier clients have gone, and the holder, without a waiting task, does not listen.
    leasehold_conformance::until("the waiter listens", || async {
        theirs("query LIKE 'LISTEN%'") == "1"
            && theirs("query LIKE 'LISTEN%' AND client_dn IS NOT NULL") == "1"
    })
    .await
    .unwrap();
    assert_eq!(theirs("NOT ssl"), "0");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();

    let old = Certificates::make_expired().unwrap();
    let server = Postgres::start_tls(&[], &old).unwrap();
    ServerAddress::of(&server.url(), &old).is_refused("tls=verify-ca", &old).await;
}

pub(crate) async fn mysql_is_used_over_tls() {
    let right = Certificates::make().unwrap();
    let server = MariaDb::start_tls(&[], &right).unwrap();
    let place = ServerAddress::of(&server.url(), &right);
    place.is_checked(&Certificates::make().unwrap()).await;
    server.sql("ALTER USER leasehold@'%' REQUIRE X509").unwrap();
    let unknown = place.with(&authority("tls=verify", &right));
    let error = try_connect(&unknown).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    works(&place.with(&place.known())).await;

    let old = Certificates::make_expired().unwrap();
    let server = MariaDb::start_tls(&[], &old).unwrap();
    ServerAddress::of(&server.url(), &old).is_refused("tls=verify-ca", &old).await;
}

/// A server that accepts no connection without TLS.
struct ServerAddress<'a> {
    /// Without options.
    url: String,
    certificates: &'a Certificates,
}

fn authority(options: &str, certificates: &Certificates) -> String {
    format!("{options}&tls-ca={}", certificates.authority().display())
}

async fn works(url: &str) {
    connect(url).await.lock("a").acquire().await.unwrap().release().await.unwrap();
}

impl<'a> ServerAddress<'a> {
    fn of(url: &str, certificates: &'a Certificates) -> Self {
        let (url, _) = url.split_once('?').unwrap();
        Self { url: url.to_owned(), certificates }
    }

    fn with(&self, options: &str) -> String {
        format!("{}?{options}", self.url)
    }

    /// With its own certificate.
    fn known(&self) -> String {
        let (cert, key) = (self.certificates.client(), self.certificates.client_key());
        let own = format!("&tls-cert={}&tls-key={}", cert.display(), key.display());
        authority("tls=verify", self.certificates) + &own
    }

    /// What each mode accepts, and what it refuses.
    async fn is_checked(&self, other: &Certificates) {
        let right = |options: &str| authority(options, self.certificates);
        for options in [
            "tls=prefer".to_owned(),
            "tls=require".to_owned(),
            String::new(),
            right("tls=verify-ca"),
            right("tls=verify"),
            // The default with an authority, and the names of libpq.
            right("prefix=leasehold"),
            right("sslmode=verify-full").replace("tls-ca", "sslrootcert"),
        ] {
            works(&self.with(&options)).await;
        }
        let error = try_connect(&self.with("tls=off")).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("TLS"), "{error}");
        for options in ["tls=verify", "tls=verify-ca", "prefix=leasehold", "sslmode=verify-full"] {
            self.is_refused(options, other).await;
        }
        // No public authority has signed its certificate.
        for options in ["tls=verify", "tls=verify-ca"] {
            refused(&self.with(options)).await;
        }
        // The right server by a name that its certificate does not contain.
        let elsewhere =
            |options: &str| self.with(&right(options)).replace("127.0.0.1", "[::ffff:127.0.0.1]");
        refused(&elsewhere("tls=verify")).await;
    }

    async fn is_refused(&self, options: &str, authority: &Certificates) {
        refused(&self.with(&self::authority(options, authority))).await;
    }
}

async fn refused(url: &str) {
    let error = match try_connect(url).await {
        Ok(_) => panic!("connected to {url}"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Refused, "{url}: {error}");
    assert!(error.to_string().contains("tls-ca"), "{url}: {error}");
}
