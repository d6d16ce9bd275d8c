//! Checks each request before anything else, and protects each response.

use std::sync::PoisonError;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use crate::app::App;
use crate::bodies;
use crate::problem::Problem;

/// The header that every change through the API must have: no other page can make a browser send it.
pub(crate) const HEADER: &str = "x-leasehold";

/// Tells whether a browser sends a request for a page of the same server.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How long a form may take to arrive and to be answered.
const FORM: Duration = Duration::from_secs(10);

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                   img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, CSP),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Runs a request between its checks and the headers of its response.
pub(crate) async fn protect(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match check(&app, &request) {
        Ok(()) => run(request, next).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let status = response.status().as_u16();
    let mut responses = app.counters.responses.lock().unwrap_or_else(PoisonError::into_inner);
    *responses.entry(status).or_default() += 1;
    drop(responses);
    response
}

/// A form must arrive within a time; the requests of the API have no body.
async fn run(request: Request, next: Next) -> Response {
    if is_api(request.uri()) {
        return match bodies::refuse(request).await {
            Ok(request) => next.run(request).await,
            Err(problem) => problem.into_response(),
        };
    }
    if is_read(request.method()) {
        return next.run(request).await;
    }
    let late = || {
        let detail = "the form did not arrive in time";
        let next = "send the request again";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail, next).into_response()
    };
    tokio::time::timeout(FORM, next.run(request)).await.unwrap_or_else(|_| late())
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn is_api(uri: &Uri) -> bool {
    uri.path() == "/v1" || uri.path().starts_with("/v1/")
}

/// While the server stops, the clients of leases can still release them.
fn is_of_lease(uri: &Uri) -> bool {
    let mut parts = uri.path().split('/').skip(1);
    parts.next() == Some("v1") && parts.nth(4) == Some("leases") && parts.next().is_some()
}

fn check(app: &App, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    check_host(&app.hosts, headers, request.uri())?;
    if *app.stopping.borrow() && !is_of_lease(request.uri()) {
        return Err(Problem::stopping());
    }
    if is_read(request.method()) {
        return Ok(());
    }
    check_change(headers, request.uri())
}

/// A page of another server can reach this one under its own name (DNS rebinding), so the name must
/// be one of this server.
fn check_host(hosts: &[String], headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let is_known = |authority: &str| {
        let host = without_port(authority).to_ascii_lowercase();
        hosts.contains(&host)
    };
    let mut named = headers.get_all(HOST).iter();
    let host = named.next().and_then(|host| host.to_str().ok());
    let in_uri = uri.authority().is_none_or(|authority| is_known(authority.as_str()));
    if host.is_some_and(is_known) && named.next().is_none() && in_uri {
        return Ok(());
    }
    let detail = "the header Host does not name this server";
    let next = "use a name that the server was started with: --host NAME";
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail, next))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// A page of another server can make a browser send a request, but not with this header, and not
/// without naming where it comes from.
fn check_change(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let refused =
        |detail: &str, next| Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail, next));
    let from_browser = "use the pages of this server, or send no header Origin";
    if let Some(site) = headers.get(FETCH_SITE)
        && site != "same-origin"
        && site != "none"
    {
        return refused("a page of another server sent the request", from_browser);
    }
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    if let Some(origin) = origin {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let from = origin.split_once("://").map_or("", |(_, from)| from);
        if host.is_empty() || !from.eq_ignore_ascii_case(host) {
            return refused("the header Origin names another server", from_browser);
        }
    }
    match headers.contains_key(HEADER) || (!is_api(uri) && origin.is_some()) {
        true => Ok(()),
        false => {
            refused("a change needs the header X-Leasehold", "send the header `X-Leasehold: 1`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_requests_of_a_lease_are_of_a_lease() {
        let is_of_lease = |path: &'static str| is_of_lease(&Uri::from_static(path));
        assert!(is_of_lease("/v1/stores/s/locks/n/leases/id"));
        assert!(is_of_lease("/v1/stores/s/locks/n/leases/id/renew"));
        for other in [
            "/v1/stores/s/locks/n/leases",
            "/v1/stores/s/locks/leases/leader",
            "/v1/stores/s/locks/leases/acquire",
            "/v1/stores/s/locks",
            "/stores/s/locks/n/leases/id/x",
        ] {
            assert!(!is_of_lease(other), "{other}");
        }
    }

    #[test]
    fn only_the_names_of_the_server_are_hosts() {
        let hosts = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let is_accepted = |host: &'static str, uri: &'static str| {
            let uri = Uri::from_static(uri);
            check_host(&hosts, &headers(&[("host", host)]), &uri).is_ok()
        };
        for good in ["localhost", "LOCALHOST:7411", "127.0.0.1:1", "[::1]:7411", "[::1]"] {
            assert!(is_accepted(good, "/"), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io:7411",
            "",
            ":7411",
            "localhost:x",
            "evil@localhost",
            "::1",
            "localhost, evil",
        ] {
            assert!(!is_accepted(bad, "/"), "{bad}");
        }
        assert!(!is_accepted("localhost", "http://evil.example/"));
        assert!(check_host(&hosts, &headers(&[]), &Uri::from_static("/")).is_err());
        let mut twice = headers(&[("host", "localhost")]);
        twice.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(check_host(&hosts, &twice, &Uri::from_static("/")).is_err());
    }

    #[test]
    fn a_change_from_another_page_is_refused() {
        let is_accepted = |pairs: &[(&'static str, &'static str)], path: &'static str| {
            check_change(&headers(pairs), &Uri::from_static(path)).is_ok()
        };
        let host = ("host", "localhost:7411");
        let own = ("origin", "http://localhost:7411");
        let ours = ("x-leasehold", "1");
        assert!(is_accepted(&[host, ours], "/v1/x"));
        assert!(is_accepted(&[host, own], "/login"));
        for (pairs, path) in [
            (&[host][..], "/v1/x"),
            (&[host][..], "/login"),
            (&[host, own][..], "/v1/x"),
            (&[host, ("origin", "http://evil.example")][..], "/login"),
            (&[host, ("origin", "http://localhost:80")][..], "/login"),
            (&[host, ("origin", "null")][..], "/login"),
            (&[host, ours, ("origin", "null")][..], "/v1/x"),
            (&[host, ours, ("sec-fetch-site", "cross-site")][..], "/v1/x"),
            (&[host, own, ("sec-fetch-site", "same-site")][..], "/login"),
        ] {
            assert!(!is_accepted(pairs, path), "{pairs:?} {path}");
        }
    }
}
