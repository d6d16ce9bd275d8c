//! A fence in front of an HTTP service: it refuses requests with an older token. Needs the feature
//! `fence-http`.
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use http::{Request, Response, StatusCode};
//! use leasehold::Token;
//! use leasehold::fence::http::{FenceLayer, LEASEHOLD_TOKEN};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! let service = FenceLayer::new().layer(service_fn(|request: Request<String>| async move {
//!     // Send the token on to the store, which checks the write again.
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
//! | token not smaller than the largest seen for its resource | the service's; the handler finds the [`Token`](crate::Token) in the request's extensions |
//! | smaller token | 412 Precondition Failed, the largest token in the header |
//! | no token, method not safe | 428 Precondition Required, unless [`Missing::Allow`] |
//! | no token, safe method (GET, HEAD, OPTIONS, TRACE) | the service's |
//! | header that is not one token | 400 Bad Request |
//! | resource function returns `None` | the service's |
//!
//! The layer checks a safe method *with* a token like any other method, so a holder can announce
//! its token by a read. Any HTTP server that uses tower can use the layer if its response body can
//! be built from a `String` (for example axum's, hyper's `Full<Bytes>`, or `String`).
//!
//! # Limits
//!
//! The layer records the token before the service runs. Otherwise it could accept an older request
//! while a newer one runs. But check and write are two steps here: a request that was accepted
//! *before* the newer one arrived may write after it. If the service awaits anything between the
//! layer and its write, send the token to the store and check it there as well.
//!
//! A [`Fence`](crate::fence::Fence) keeps the tokens in this process's memory. A restart forgets
//! them, and two instances behind a load balancer do not share them. In these cases the store's own
//! check decides, and the layer only refuses some requests early.
//!
//! A token is a number that any client can send. A client that sends the largest number blocks all
//! other clients. Authenticate requests first, and put this layer behind the authentication.

mod header;
mod layer;
mod refusal;
mod service;

/// The version of the crate `http` whose types the layer uses.
pub use ::http;
pub use header::{LEASEHOLD_TOKEN, MalformedToken, put_token, token_in};
pub use layer::{FenceLayer, Missing};
pub use service::{FenceService, ResponseFuture};
