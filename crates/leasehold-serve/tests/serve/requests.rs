//! Requests that the API refuses: with a body, with another method, with a path that is no text.

use leasehold::State;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{ADMIN, HOLDER, Response, Serving};

const CHANGES: [&str; 5] = [
    "POST /v1/stores/main/locks/a/acquire",
    "POST /v1/stores/main/locks/a/hold",
    "POST /v1/stores/main/locks/a/leases/x/renew",
    "DELETE /v1/stores/main/locks/a/leases/x",
    "POST /v1/stores/main/locks/a/force-release",
];

/// Checks that it is a problem document of this status.
#[track_caller]
fn check(answer: &Response, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
    let problem = answer.json();
    assert_eq!(problem["status"], status, "{what}");
    for field in ["type", "title", "detail", "kind", "next"] {
        assert!(!problem[field].as_str().unwrap_or_default().is_empty(), "{what}: no {field}");
    }
}

/// Sends a change with these headers, and what follows its head.
async fn send(serving: &Serving, line: &str, headers: &str, rest: &str) -> Response {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nX-Leasehold: 1\r\nAuthorization: Bearer {ADMIN}\r\n\
         Connection: close\r\n{headers}\r\n\r\n{rest}",
        serving.address
    );
    serving.raw(head.as_bytes()).await
}

#[tokio::test]
async fn a_request_with_a_body_is_refused_with_where_its_parameters_belong() {
    let serving = Serving::start_with(|settings| settings.allow_force_release = true).await;
    let headers = format!("X-Leasehold: 1\nAuthorization: Bearer {ADMIN}");
    for line in CHANGES {
        for body in ["ttl=1s", "{\"token\":1,\"reason\":\"stuck\"}", &"x".repeat(100 << 10)] {
            let answer = serving.send(line, &headers, body).await;
            // The client of a long body may not see the answer before the connection closes.
            if body.len() > 1000 && answer.status == 0 {
                continue;
            }
            check(&answer, 400, line);
            let next = answer.json()["next"].as_str().unwrap().to_owned();
            let query = match line.ends_with("force-release") {
                true => "?token=TOKEN&reason=TEXT",
                false => "?ttl=30s&wait=10s",
            };
            assert!(next.contains(query), "{line}: {next}");
        }
    }
    let answer = serving.send("GET /v1/stores", &headers, "x").await;
    check(&answer, 400, "a body of a request that reads");
    let lock = serving.client().await.lock("a").status().await.unwrap();
    assert_eq!(lock.state, State::Free);
}

#[tokio::test]
async fn a_body_is_refused_before_it_has_arrived() {
    let serving = Serving::start().await;
    for (headers, rest) in [
        // It is announced, and never sent.
        ("Content-Length: 1000000000000", ""),
        ("Content-Length: 5", ""),
        // Its first byte arrives, and its end never does.
        ("Transfer-Encoding: chunked", "1\r\nx\r\n"),
        ("Transfer-Encoding: chunked", "FFFFFFFF\r\nttl"),
    ] {
        for line in [CHANGES[0], CHANGES[4]] {
            check(&send(&serving, line, headers, rest).await, 400, &format!("{line} {headers}"));
        }
    }
    // No byte arrives.
    let late = send(&serving, CHANGES[0], "Transfer-Encoding: chunked", "").await;
    check(&late, 408, "a body that does not begin");
}

#[tokio::test]
async fn an_endless_body_is_not_read() {
    let serving = Serving::start().await;
    let mut stream = TcpStream::connect(&serving.address).await.unwrap();
    let head = format!(
        "POST /v1/stores/main/locks/a/acquire HTTP/1.1\r\nHost: {}\r\nX-Leasehold: 1\r\n\
         Authorization: Bearer {HOLDER}\r\nTransfer-Encoding: chunked\r\n\r\n",
        serving.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    // It ends when the server has closed the connection.
    crate::support::within(async { while stream.write_all(chunk.as_bytes()).await.is_ok() {} })
        .await;
    assert_eq!(serving.acquire("a", "wait=0").await.status, 200);
}

#[tokio::test]
async fn an_empty_body_is_no_body() {
    let serving = Serving::start().await;
    for (name, headers, rest) in [
        ("a", "Content-Length: 0", ""),
        ("b", "Transfer-Encoding: chunked", "0\r\n\r\n"),
        ("c", "Content-Type: application/json", ""),
        ("d", "Content-Type: application/json\r\nContent-Length: 0", ""),
    ] {
        let line = format!("POST /v1/stores/main/locks/{name}/acquire?ttl=30s");
        let answer = send(&serving, &line, headers, rest).await;
        assert_eq!(answer.status, 200, "{headers}: {answer:?}");
    }
}

#[tokio::test]
async fn a_wrong_method_and_a_path_that_is_no_text_are_problems() {
    let serving = Serving::start().await;
    let document = serving.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    for (path, operations) in paths {
        let concrete =
            path.replace("{store}", "main").replace("{name}", "a").replace("{lease}", "x");
        let known: Vec<String> =
            operations.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"] {
            if known.iter().any(|known| known == method) {
                continue;
            }
            let answer = serving.change(&format!("{method} {concrete}"), ADMIN).await;
            check(&answer, 405, &format!("{method} {concrete}"));
            assert_eq!(answer.kind(), "wrong_method");
            let allowed: Vec<&str> = answer.header("allow").unwrap().split(',').collect();
            for known in &known {
                assert!(allowed.contains(&known.as_str()), "{concrete}: {allowed:?}");
            }
        }
        for part in ["{store}", "{name}", "{lease}"].iter().filter(|part| path.contains(**part)) {
            let wrong = path.replace(part, "%ff");
            let wrong = wrong.replace("{store}", "main").replace("{name}", "a");
            let wrong = wrong.replace("{lease}", "x");
            for method in &known {
                let answer = serving.change(&format!("{method} {wrong}"), ADMIN).await;
                check(&answer, 400, &format!("{method} {wrong}"));
                assert_eq!(answer.kind(), "invalid");
            }
        }
    }
    for path in ["/v1", "/v1/", "/v1/nothing", "/v1/stores/", "/v1/%ff", "/v1/stores/main/locks/"] {
        let answer = serving.get(path).await;
        check(&answer, 404, path);
        assert_eq!(answer.kind(), "unknown_path", "{path}");
    }
    let query = serving.get("/v1/stores/main/locks?sort=%ff").await;
    check(&query, 400, "a query that is no text");
    assert!(matches!(query.json()["detail"], Value::String(_)));
}
