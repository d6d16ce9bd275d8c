//! A fence in front of an HTTP service: requests with an older token are refused. Needs the
//! feature `fence-http`.
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use http::{Request, Response, StatusCode};
//! use leasehold::Token;
//! use leasehold::fence::http::{FenceLayer, LEASEHOLD_TOKEN};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! let service = FenceLayer::new().layer(service_fn(|request: Request<String>| async move {
//!     // The token goes on to the store, where the write is checked again.
//!     let token = request.extensions().get::<Token>().copied();
//!     println!("{:?} by {token:?}", request.body());
//!     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
//! }));
//!
//! let put = |token| Request::put("/orders/555").header(LEASEHOLD_TOKEN, token).body("paid".to_owned());
//! let newer = service.clone().oneshot(put(34)?).await?;
//! assert_eq!(newer.status(), StatusCode::OK);
//! let older = service.oneshot(put(33)?).await?;
//! assert_eq!(older.status(), StatusCode::PRECONDITION_FAILED);
//! assert_eq!(older.headers()[LEASEHOLD_TOKEN], "34");
//! # Ok(()) }
//! ```
//!
//! | request | response |
//! |---|---|
//! | token at least as large as all before, for its resource | the service's; the handler finds the [`Token`](crate::Token) in the request's extensions |
//! | smaller token | 412 Precondition Failed, the largest token in the header |
//! | no token, method not safe | 428 Precondition Required, unless [`Missing::Allow`] |
//! | no token, safe method (GET, HEAD, OPTIONS, TRACE) | the service's |
//! | header that is not one token | 400 Bad Request |
//! | resource function says `None` | the service's |
//!
//! A safe method *with* a token is checked like any other: a holder that reads first announces
//! itself by that. Any HTTP server that speaks tower will do, if its response body can be made
//! from a `String` (axum's, hyper's `Full<Bytes>`, `String` can).
//!
//! # Limits
//!
//! The token is recorded before the service runs: recorded afterwards, an older request could be
//! let in while a newer one is at work. Still, check and write are two steps here. A request that
//! was let in *before* the newer one came may write after it. If the service awaits anything
//! between the layer and its write, hand the token on to the store and check it there as well.
//!
//! What was seen is kept in this process, by a [`Fence`](crate::fence::Fence): a restart forgets
//! it, and two instances behind a balancer do not know each other's. For those the store's own
//! check decides, and the layer only refuses early.
//!
//! A token is a number that any client can send: whoever may write can shut others out by sending
//! the largest. Authenticate first, and put the layer behind that.

mod header;
mod layer;
mod refusal;
mod service;

pub use header::{LEASEHOLD_TOKEN, MalformedToken, put_token, token_in};
pub use layer::{FenceLayer, Missing};
pub use service::{FenceService, ResponseFuture};
