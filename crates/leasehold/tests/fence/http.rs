//! The tower layer in front of a service.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use leasehold::Token;
use leasehold::fence::Fence;
use leasehold::fence::http::{FenceLayer, LEASEHOLD_TOKEN, Missing, put_token};
use tokio::sync::{Semaphore, mpsc};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

pub(crate) type Service = BoxCloneSyncService<Request<String>, Response<String>, Infallible>;

/// A service that answers with the body and the token that it was given.
pub(crate) fn echo(layer: FenceLayer) -> Service {
    let inner = service_fn(|request: Request<String>| async move {
        let token = request.extensions().get::<Token>().copied();
        Ok(Response::new(format!("{} {token:?}", request.body())))
    });
    BoxCloneSyncService::new(layer.layer(inner))
}

pub(crate) fn request(method: Method, uri: &str, token: Option<u64>) -> Request<String> {
    let mut request = Request::new("paid".to_owned());
    *request.method_mut() = method;
    *request.uri_mut() = uri.parse().unwrap();
    if let Some(token) = token {
        put_token(request.headers_mut(), Token::new(token).unwrap());
    }
    request
}

pub(crate) async fn send(service: &Service, request: Request<String>) -> Response<String> {
    service.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn put(service: &Service, uri: &str, token: u64) -> Response<String> {
    send(service, request(Method::PUT, uri, Some(token))).await
}

pub(crate) async fn an_older_token_is_refused_per_resource() {
    let service = echo(FenceLayer::new());
    assert_eq!(put(&service, "/orders/1", 1000).await.status(), StatusCode::OK);
    assert_eq!(put(&service, "/orders/1?again", 1000).await.status(), StatusCode::OK);
    let refused = put(&service, "/orders/1", 999).await;
    assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(refused.headers()[LEASEHOLD_TOKEN], "1000");
    assert_eq!(refused.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(refused.body(), "Leasehold-Token: 999 is stale, 1000 has been seen\n");
    assert_eq!(put(&service, "/orders/2", 1).await.status(), StatusCode::OK);
    assert_eq!(put(&service, "/orders/1", Token::MAX.get()).await.status(), StatusCode::OK);
    let refused = put(&service, "/orders/1", Token::MAX.get() - 1).await;
    assert_eq!(refused.headers()[LEASEHOLD_TOKEN], "9007199254740991");
}

pub(crate) async fn a_request_without_a_token_is_refused_unless_allowed() {
    let service = echo(FenceLayer::new());
    for method in [Method::PUT, Method::POST, Method::DELETE, Method::PATCH] {
        let refused = send(&service, request(method, "/a", None)).await;
        assert_eq!(refused.status(), StatusCode::PRECONDITION_REQUIRED);
        assert!(refused.body().starts_with("Leasehold-Token: missing"), "{}", refused.body());
    }
    let read = send(&service, request(Method::GET, "/a", None)).await;
    assert_eq!(read.status(), StatusCode::OK);
    // A read that brings its token is checked, and announces it.
    let read = send(&service, request(Method::GET, "/a", Some(34))).await;
    assert_eq!(read.status(), StatusCode::OK);
    assert_eq!(put(&service, "/a", 33).await.status(), StatusCode::PRECONDITION_FAILED);

    let service = echo(FenceLayer::new().missing(Missing::Allow));
    let passed = send(&service, request(Method::PUT, "/a", None)).await;
    assert_eq!(passed.body(), "paid None");
    put(&service, "/a", 34).await;
    assert_eq!(put(&service, "/a", 33).await.status(), StatusCode::PRECONDITION_FAILED);
}

pub(crate) async fn a_malformed_token_names_the_header() {
    let service = echo(FenceLayer::new().missing(Missing::Allow));
    for bad in ["", "0", "-1", "34, 35", "9007199254740992", "soon"] {
        let mut request = request(Method::PUT, "/a", None);
        request.headers_mut().insert(LEASEHOLD_TOKEN, bad.parse().unwrap());
        let refused = send(&service, request).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{bad}");
        assert!(refused.body().contains("Leasehold-Token"), "{}", refused.body());
    }
}

pub(crate) async fn the_handler_finds_the_token() {
    let service = echo(FenceLayer::new());
    assert_eq!(put(&service, "/a", 34).await.body(), "paid Some(Token(34))");
}

pub(crate) async fn the_server_says_what_the_resource_is() {
    let fence = Arc::new(Fence::new());
    let layer = FenceLayer::sharing(fence.clone()).resource(|parts| {
        let order = parts.uri.path().strip_prefix("/orders/")?;
        Some(order.split('/').next()?.to_owned())
    });
    let service = echo(layer);
    assert_eq!(put(&service, "/orders/555/lines/1", 34).await.status(), StatusCode::OK);
    assert_eq!(fence.highest("555").map(Token::get), Some(34));
    let refused = put(&service, "/orders/555", 33).await;
    assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED);
    let passed = send(&service, request(Method::PUT, "/health", None)).await;
    assert_eq!(passed.status(), StatusCode::OK);
}

/// A service whose requests report that they have started, and end on a signal from the test.
fn slow(layer: FenceLayer) -> (Service, mpsc::UnboundedReceiver<u64>, Arc<Semaphore>) {
    let (inside, entered) = mpsc::unbounded_channel();
    let permits = Arc::new(Semaphore::new(0));
    let gate = permits.clone();
    let inner = service_fn(move |request: Request<String>| {
        let (inside, gate) = (inside.clone(), gate.clone());
        async move {
            inside.send(request.extensions().get::<Token>().unwrap().get()).unwrap();
            gate.acquire().await.unwrap().forget();
            Ok(Response::new(String::new()))
        }
    });
    (BoxCloneSyncService::new(layer.layer(inner)), entered, permits)
}

pub(crate) async fn an_older_request_is_refused_while_a_newer_one_is_at_work() {
    let (service, mut entered, permits) = slow(FenceLayer::new());
    let newer = tokio::spawn({
        let service = service.clone();
        async move { put(&service, "/a", 34).await.status() }
    });
    assert_eq!(entered.recv().await, Some(34));
    assert_eq!(put(&service, "/a", 33).await.status(), StatusCode::PRECONDITION_FAILED);
    permits.add_permits(1);
    assert_eq!(newer.await.unwrap(), StatusCode::OK);
}

/// The documented limit: the layer's check and the service's write are two steps.
pub(crate) async fn a_request_let_in_before_is_not_stopped() {
    let (service, mut entered, permits) = slow(FenceLayer::new());
    let mut running = Vec::new();
    for token in [33, 34] {
        let service = service.clone();
        running.push(tokio::spawn(async move { put(&service, "/a", token).await.status() }));
        assert_eq!(entered.recv().await, Some(token));
    }
    permits.add_permits(2);
    for request in running {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
}

pub(crate) async fn after_a_token_has_passed_no_smaller_one_does() {
    // The inner service runs in the same poll as the check, so the order of its calls proves nothing;
    // the responses to the clients do.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let next = Arc::new(AtomicU64::new(2));
    let inner = {
        let seen = seen.clone();
        service_fn(move |request: Request<String>| {
            seen.lock().unwrap().push(request.extensions().get::<Token>().unwrap().get());
            async { Ok(Response::new(String::new())) }
        })
    };
    let service: Service = BoxCloneSyncService::new(FenceLayer::new().layer(inner));
    let mut clients = Vec::new();
    for _ in 0..8 {
        let (service, next) = (service.clone(), next.clone());
        clients.push(tokio::spawn(async move {
            for _ in 0..300 {
                let mine = next.fetch_add(1, Ordering::Relaxed);
                let status = put(&service, "/a", mine).await.status();
                let before = put(&service, "/a", mine - 1).await;
                assert_eq!(before.status(), StatusCode::PRECONDITION_FAILED);
                let highest = before.headers()[LEASEHOLD_TOKEN].to_str().unwrap();
                let highest: u64 = highest.parse().unwrap();
                assert!(if status == StatusCode::OK { highest >= mine } else { highest > mine });
                tokio::task::yield_now().await;
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let last = next.load(Ordering::Relaxed) - 1;
    assert_eq!(put(&service, "/a", last).await.status(), StatusCode::OK);
    assert_eq!(seen.lock().unwrap().last(), Some(&last));
}
