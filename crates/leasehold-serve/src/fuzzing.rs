//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use std::sync::OnceLock;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, StatusCode};
use leasehold::clock::Clock;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::app::App;
use crate::asked::Asked;
use crate::duration;
use crate::forcing::Order;
use crate::params::Params;
use crate::scan;
use crate::server::routes;
use crate::settings::{Settings, StoreSetting};
use crate::tokens::Tokens;

/// The name of a target, and the function that reads the input.
pub type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] =
    &[("serve-params", params), ("serve-request", request), ("serve-tokens", tokens)];

/// The longest body.
const BODY: usize = 1 << 16;

fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// The file of `--token-file`.
fn tokens(input: &[u8]) {
    let text = text(input);
    if let Ok(tokens) = Tokens::parse(&text) {
        let _ = tokens.find(&text);
    }
}

/// The parameters of a request: a name, a blank and a value a line.
fn params(input: &[u8]) {
    let text = text(input);
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        (name.to_owned(), value.to_owned())
    };
    let Ok(params) = Params::new(text.lines().map(pair).collect()) else { return };
    let _ = (Asked::new(&params), params.only(&["limit", "ttl"]), params.number("limit"));
    let _ = Order::new("main", "a", params.get("token"), params.get("reason"));
    let _ = scan::Order::parse(params.get("sort").unwrap_or_default());
    for (name, value) in params.pairs() {
        let _ = duration::parse(name, value, Duration::ZERO);
    }
}

/// A request as HTTP/1.1 writes it, to a server whose store cannot be used. What does not come at once is not waited for.
fn request(input: &[u8]) {
    let text = text(input);
    let (head, body) = text.split_once("\n\n").unwrap_or((&*text, ""));
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = Method::from_bytes(words.next().unwrap_or_default().as_bytes());
    let (Ok(method), Some(uri)) = (method, words.next()) else { return };
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let Ok(request) = request.body(Body::from(body.to_owned())) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let (Some(app), Ok(runtime)) = (app(), runtime) else { return };
    runtime.block_on(async {
        // Once is enough: from then on it has failed.
        let connecting = app.stores.iter().filter(|shown| shown.store.fault().is_none());
        for shown in connecting {
            let _ = timeout(Duration::ZERO, shown.store.connect()).await;
        }
        let answered = timeout(Duration::ZERO, routes(app.clone(), BODY).oneshot(request)).await;
        let status = answered.map(|answered| answered.map(|response| response.status()));
        assert_ne!(status, Ok(Ok(StatusCode::INTERNAL_SERVER_ERROR)));
    });
}

fn app() -> Option<App> {
    static APP: OnceLock<Option<App>> = OnceLock::new();
    let new = || {
        let (_, stopping) = watch::channel(false);
        let store = StoreSetting { name: "main".to_owned(), url: "unknown:".to_owned() };
        App::new(&Settings::new(vec![store]), Clock::system(), stopping).ok()
    };
    APP.get_or_init(new).clone()
}
