//! Credentials, rights, certificates and servers that are not there.

use leasehold_core::ErrorKind;
use leasehold_test_servers::{Certificates, ZooKeeperServer, ZooKeeperSettings};
use zookeeper_client::{Acl, Acls, AuthId, Client as ZooKeeper, CreateMode, Permission};

use crate::{Test, connect, plain, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(no_server_is_said_at_once),
    test!(a_wrong_password_is_refused_and_not_shown),
    test!(a_missing_chroot_is_made_and_one_without_rights_is_named),
    test!(a_ttl_beyond_the_session_is_shortened),
    test!(with_tls_and_a_client_certificate),
    test!(the_wrong_authority_and_the_wrong_port_are_told_apart),
];

async fn no_server_is_said_at_once() {
    let mut server = plain();
    let url = server.url();
    server.kill();
    let error = try_connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("is the server running?"), "{error}");
    assert!(error.to_string().contains(&server.address().to_string()), "{error}");
}

async fn a_wrong_password_is_refused_and_not_shown() {
    let server = plain();
    let url = |password: &str| format!("zookeeper://app:{password}@{}/own", server.address());
    let client = connect(&url("right")).await;
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(!format!("{client:?} {}", client.place()).contains("right"));
    let stranger = connect(&url("s3cret")).await;
    for error in [
        stranger.lock("a").try_acquire().await.unwrap_err(),
        stranger.lock("a").acquire().await.unwrap_err(),
        stranger.lock("b").acquire().await.unwrap_err(),
        stranger.lock("a").status().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("/own") && text.contains("password"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    guard.release().await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "right\n").unwrap();
    let by_file = format!(
        "zookeeper://{}/own?user=app&password-file={}",
        server.address(),
        file.path().display()
    );
    connect(&by_file).await.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_missing_chroot_is_made_and_one_without_rights_is_named() {
    let server = plain();
    let client = connect(&(server.url() + "/not/there/yet")).await;
    assert!(client.list("", 10).await.unwrap().is_empty());
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let admin = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let read_only = [Acl::new(Permission::READ, AuthId::anyone())];
    let options = CreateMode::Persistent.with_acls(Acls::new(&read_only));
    admin.create("/closed", b"", &options).await.unwrap();
    let closed = connect(&(server.url() + "/closed/locks")).await;
    let error = closed.lock("a").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(
        error.to_string().contains("/closed/locks") && error.to_string().contains("ACL"),
        "{error}"
    );
}

async fn a_ttl_beyond_the_session_is_shortened() {
    let server = plain();
    let client = connect(&(server.url() + "?session=4s")).await;
    let guard = client.lock("a").ttl(crate::secs(3600)).acquire().await.unwrap();
    assert!(guard.remaining() <= crate::secs(2), "{:?}", guard.remaining());
    guard.release().await.unwrap();
}

async fn with_tls_and_a_client_certificate() {
    let certificates = Certificates::make().unwrap();
    let server = ZooKeeperServer::start(ZooKeeperSettings::new().tls(&certificates)).unwrap();
    let client = connect(&tls_url(&server, &certificates, true)).await;
    let plain = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(plain.lock("a").try_acquire().await.unwrap().is_none(), "two hold it");
    guard.release().await.unwrap();
    let error = try_connect(&tls_url(&server, &certificates, false)).await.unwrap_err();
    assert!(error.to_string().contains("tls-cert"), "{error}");
}

async fn the_wrong_authority_and_the_wrong_port_are_told_apart() {
    let certificates = Certificates::make().unwrap();
    let server = ZooKeeperServer::start(ZooKeeperSettings::new().tls(&certificates)).unwrap();
    let others = Certificates::make().unwrap();
    // A server that has just started may be slow with its first certificates.
    connect(&tls_url(&server, &certificates, true)).await;
    let error = try_connect(&tls_url(&server, &others, true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(
        error.to_string().contains("authority") && error.to_string().contains("tls-ca"),
        "{error}"
    );
    let plain_port = tls_url(&server, &certificates, true).replace(
        &server.tls_address().unwrap().port().to_string(),
        &server.address().port().to_string(),
    );
    let error = try_connect(&plain_port).await.unwrap_err();
    assert!(error.to_string().contains("port without TLS"), "{error}");
    let error =
        try_connect(&format!("zookeeper://{}", server.tls_address().unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("port for TLS"), "{error}");
}

fn tls_url(server: &ZooKeeperServer, certificates: &Certificates, client: bool) -> String {
    let port = server.tls_address().unwrap().port();
    let mut url = format!(
        "zookeepers://localhost:{port}?session=30s&tls-ca={}",
        certificates.authority().display()
    );
    if client {
        let (cert, key) = (certificates.client(), certificates.client_key());
        url += &format!("&tls-cert={}&tls-key={}", cert.display(), key.display());
    }
    url
}
