//! Attempts to break the safety rules: hosts, other sites, sizes, slow clients, tokens, limits.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_serve::{Listen, Server, Settings};
use leasehold_test_servers::{Certificates, Needs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::support::{ADMIN, HOLDER, OTHER, READER, Serving, until, within, write};

#[tokio::test]
async fn a_request_under_another_host_name_is_refused() {
    let serving = Serving::start().await;
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", ""] {
        let answer = serving.send("GET /v1/stores", &format!("Host: {host}"), "").await;
        assert_eq!((answer.status, answer.kind().as_str()), (421, "wrong_host"), "{host}");
    }
    let answer = serving.send("GET http://evil.example/v1/stores", "", "").await;
    assert_eq!(answer.status, 421);
    let answer = serving.send("GET /v1/stores", "Host: localhost:1234", "").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_page_of_another_site_can_change_nothing() {
    let serving = Serving::start().await;
    let line = "POST /v1/stores/main/locks/a/acquire";
    let token = format!("Authorization: Bearer {ADMIN}");
    for headers in [
        token.clone(),
        format!("{token}\nX-Leasehold: 1\nOrigin: http://evil.example"),
        format!("{token}\nX-Leasehold: 1\nOrigin: null"),
        format!("{token}\nX-Leasehold: 1\nSec-Fetch-Site: cross-site"),
        format!("{token}\nX-Leasehold: 1\nSec-Fetch-Site: same-site"),
    ] {
        let answer = serving.send(line, &headers, "").await;
        assert_eq!((answer.status, answer.kind().as_str()), (403, "cross_site"), "{headers}");
    }
    // A preflight request gets no permission.
    let answer = serving
        .send(
            "OPTIONS /v1/stores",
            "Origin: http://evil.example\nAccess-Control-Request-Headers: x-leasehold",
            "",
        )
        .await;
    assert!(answer.status >= 400 && answer.header("access-control-allow-origin").is_none());
    let read = serving.send("GET /v1/stores", "Origin: http://evil.example", "").await;
    assert!(read.header("access-control-allow-origin").is_none());
    let free = serving.client().await.lock("a").status().await.unwrap();
    assert_eq!(free.state, leasehold::State::Free);
}

#[tokio::test]
async fn every_response_has_the_headers_that_protect_it() {
    let serving = Serving::start().await;
    for path in ["/", "/nothing", "/v1/nothing", "/login", "/metrics", "/assets/live.js"] {
        let answer = serving.get(path).await;
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
    }
    let page = serving.get("/").await.body;
    assert!(!page.contains("style=") && !page.contains("onclick"), "{page}");
    assert_eq!(page.matches("<script").count(), page.matches("<script src=\"/assets/").count());
}

#[tokio::test]
async fn a_body_or_head_that_is_too_large_is_refused() {
    let serving = Serving::start().await;
    let origin = format!("Origin: http://{}", serving.address);
    let form = format!("{origin}\nContent-Type: application/x-www-form-urlencoded");
    let body = format!("token={}", "x".repeat(20 << 10));
    assert_eq!(serving.send("POST /login", &form, &body).await.status, 413);
    let long = format!("X-Long: {}", "x".repeat(64 << 10));
    let status = serving.send("GET /", &long, "").await.status;
    // The server may close the connection before the client has read the answer.
    assert!(status == 431 || status == 0, "{status}");
    let many: String = (0..200).map(|n| format!("X-{n}: 1\n")).collect();
    let status = serving.send("GET /", &many, "").await.status;
    assert!(status == 431 || status == 400 || status == 0, "{status}");
    assert_eq!(serving.get("/").await.status, 200);
}

#[tokio::test]
async fn a_client_that_sends_its_head_slowly_is_cut_off_and_stops_no_other() {
    let serving = Serving::start_with(|settings| settings.limits.connections = 4).await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&serving.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(serving.get("/").await.status, 200);
    for mut stream in slow {
        let mut rest = Vec::new();
        within(stream.read_to_end(&mut rest)).await.ok();
        assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    }
}

#[tokio::test]
async fn a_form_that_arrives_slowly_is_cut_off() {
    let serving = Serving::start().await;
    let answer = serving
        .raw(
            format!(
                "POST /login HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Length: 100\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\ntoken=",
                serving.address
            )
            .as_bytes(),
        )
        .await;
    assert_eq!((answer.status, answer.kind().as_str()), (408, "too_slow"));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_and_are_served_later() {
    let serving = Serving::start_with(|settings| settings.limits.connections = 2).await;
    let one = serving.open("GET /v1/events", "").await;
    let other = serving.open("GET /v1/events", "").await;
    let address = serving.address.clone();
    let mut third = TcpStream::connect(&address).await.unwrap();
    let request =
        format!("GET /v1/stores HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    third.write_all(request.as_bytes()).await.unwrap();
    let mut byte = [0];
    let early = tokio::time::timeout(Duration::from_millis(300), third.read(&mut byte)).await;
    assert!(early.is_err(), "it is not served while two connections are open");
    drop(one);
    let mut text = String::new();
    within(third.read_to_string(&mut text)).await.unwrap();
    assert!(text.contains("200 OK"), "{text}");
    drop(other);
}

#[tokio::test]
async fn each_role_may_do_what_it_names() {
    let serving = Serving::start_with(|settings| settings.allow_force_release = true).await;
    let acquire = "POST /v1/stores/main/locks/a/acquire?wait=0";
    let force = "POST /v1/stores/main/locks/a/force-release?token=1&reason=x";
    for (line, token, status) in [
        (acquire, "", 401),
        (acquire, "wrong-token-0123456789abcdef", 401),
        (acquire, READER, 403),
        (acquire, HOLDER, 200),
        (force, READER, 403),
        (force, HOLDER, 403),
        // The token is not the current one.
        (force, ADMIN, 409),
        ("GET /v1/stores", READER, 200),
        ("GET /v1/stores", "wrong-token-0123456789abcdef", 401),
    ] {
        assert_eq!(serving.change(line, token).await.status, status, "{line} {token}");
    }
    let answer = serving.send(acquire, "X-Leasehold: 1", "").await;
    assert_eq!(answer.status, 401);
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
}

#[tokio::test]
async fn without_a_token_file_an_address_changes_nothing() {
    let serving = Serving::start_with(|settings| settings.token_file = None).await;
    let answer = serving.send("POST /v1/stores/main/locks/a/acquire", "X-Leasehold: 1", "").await;
    assert_eq!((answer.status, answer.kind().as_str()), (401, "no_token"));
    assert_eq!(serving.change("POST /v1/stores/main/locks/a/hold", HOLDER).await.status, 401);
    assert_eq!(serving.get("/v1/stores").await.status, 200);
}

#[tokio::test]
async fn a_lease_of_another_token_or_lock_is_unknown() {
    let serving = Serving::start().await;
    let granted = serving.acquire("a", "").await.json();
    let id = granted["lease"].as_str().unwrap();
    let renew =
        |name: &str, id: &str| format!("POST /v1/stores/main/locks/{name}/leases/{id}/renew");
    for (line, token) in [
        (renew("a", id), OTHER),
        (renew("b", id), HOLDER),
        (renew("a", &id[1..]), HOLDER),
        (renew("a", "0"), HOLDER),
    ] {
        let answer = serving.change(&line, token).await;
        assert_eq!((answer.status, answer.kind().as_str()), (404, "unknown_lease"), "{line}");
    }
    // The attempt's id is public, and is no secret.
    let lock = serving.get("/v1/stores/main/locks/a").await;
    assert!(!lock.body.contains(id));
    let attempt = lock.json()["holders"][0]["owner"].as_str().unwrap().to_owned();
    assert_eq!(serving.change(&renew("a", &attempt), HOLDER).await.status, 404);
    assert_eq!(serving.change(&renew("a", id), HOLDER).await.status, 200);
}

#[tokio::test]
async fn limits_on_leases_and_queues_hold() {
    let serving = Serving::start_with(|settings| {
        settings.limits.holds_per_token = 2;
        settings.limits.queue = 1;
    })
    .await;
    assert_eq!(serving.acquire("a", "").await.status, 200);
    let mut waiting = serving.hold("a", "wait=60s").await;
    waiting.until("queued").await;
    let answer = serving.acquire("c", "").await;
    assert_eq!((answer.status, answer.kind().as_str()), (429, "limit"));
    assert!(answer.header("retry-after").is_some());
    let line = "POST /v1/stores/main/locks/a/acquire?wait=60s";
    let answer = serving.change(line, OTHER).await;
    assert_eq!((answer.status, answer.kind().as_str()), (429, "limit"));
    drop(waiting);
    until("the place is free", || async { serving.acquire("c", "").await.status == 200 }).await;
}

#[tokio::test]
async fn only_the_owner_of_a_unix_socket_can_use_it_and_its_file_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut settings = Settings::new(vec!["memory:".parse().unwrap()]);
    settings.listen = Listen::Unix(path.clone());
    let server = Server::bind(settings.clone()).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
    let second = Server::bind(settings.clone()).await.unwrap_err();
    assert!(second.to_string().contains("another server"), "{second}");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let send = async |host: &str| {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let request = format!(
            "POST /v1/stores/memory/locks/a/acquire?wait=0&ttl=200ms HTTP/1.1\r\nHost: {host}\r\n\
             X-Leasehold: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        within(stream.read_to_string(&mut text)).await.unwrap();
        text
    };
    assert!(send("localhost").await.contains("200 OK"));
    // By way of `ssh -L`, a browser can reach it too.
    assert!(send("evil.example").await.contains("421"));
    drop(stop);
    within(task).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_token_file_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    write(&path, &format!("read eve {READER}\n"));
    let mut settings = Settings::new(vec!["memory:".parse().unwrap()]);
    settings.listen = "127.0.0.1:0".parse().unwrap();
    settings.token_file = Some(path.clone());
    assert!(Server::bind(settings.clone()).await.is_ok());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = Server::bind(settings).await.unwrap_err().to_string();
    assert!(error.contains("640") && error.contains("chmod 600"), "{error}");
}

#[tokio::test]
async fn under_tls_nothing_is_shown_without_a_token_and_cookies_stay_on_tls() {
    if Needs::OpenSsl.is_skipped() {
        return;
    }
    let certificates = Certificates::make().unwrap();
    let serving = Serving::start_with(|settings| {
        settings.listen = "0.0.0.0:0".parse().unwrap();
        settings.hosts = vec!["localhost".into()];
        settings.tls_cert = Some(certificates.server());
        settings.tls_key = Some(certificates.server_key());
    })
    .await;
    let port = serving.address.rsplit(':').next().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(certificates.authority()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let send = async |line: &str, headers: &str, body: &str| {
        let stream = TcpStream::connect(&address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let mut stream = within(connector.connect(name, stream)).await.unwrap();
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        // Some servers end the connection without the last message of TLS.
        let _ = within(stream.read_to_end(&mut text)).await;
        String::from_utf8(text).unwrap()
    };
    for path in
        ["/v1/openapi.json", "/v1/stores", "/v1/events", "/metrics", "/v1/stores/main/locks/a"]
    {
        let answer = send(&format!("GET {path}"), "", "").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
    }
    let page = send("GET /", "", "").await;
    assert!(page.starts_with("HTTP/1.1 303") && page.contains("location: /login"), "{page}");
    let token = format!("Authorization: Bearer {READER}\r\n");
    assert!(send("GET /v1/stores", &token, "").await.starts_with("HTTP/1.1 200"));
    let form = "Origin: https://localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let login = send("POST /login", form, &format!("token={READER}")).await;
    assert!(login.contains("HttpOnly") && login.contains("; Secure"), "{login}");
    // Without TLS, nothing is answered.
    let mut plain = TcpStream::connect(&address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = within(plain.read_to_end(&mut rest)).await;
    assert!(!String::from_utf8_lossy(&rest).contains("HTTP/"));
}

#[tokio::test]
async fn streams_of_events_leave_connections_for_the_clients_of_leases() {
    let serving = Serving::start_with(|settings| settings.limits.connections = 6).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(serving.open("GET /v1/events", "").await);
    }
    streams.push(serving.open("GET /v1/stores/main/locks/a/leader/events", "").await);
    assert!(streams.iter().all(|stream| stream.status == 200));
    for more in ["/v1/events", "/v1/stores/main/locks/a/leader/events"] {
        let refused = serving.get(more).await;
        assert_eq!((refused.status, refused.kind().as_str()), (429, "limit"), "{more}");
        assert!(refused.body.contains("--max-connections"), "{refused:?}");
    }
    assert_eq!(serving.acquire("a", "wait=0").await.status, 200);
    drop(streams);
    until("there is room again", async || serving.open("GET /v1/events", "").await.status == 200)
        .await;
}
