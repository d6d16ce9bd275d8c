//! The service that the layer puts in front of the inner service.

use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::layer::FenceLayer;
use super::refusal::Refusal;

/// A service with a fence in front; created by [`FenceLayer`].
#[derive(Clone, Debug)]
pub struct FenceService<S> {
    layer: FenceLayer,
    inner: S,
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> FenceService<S> {
        FenceService { layer: self.clone(), inner }
    }
}

impl<S, A, B> Service<Request<A>> for FenceService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: From<String>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let refusal = match self.layer.decide(&parts) {
            Err(refusal) => refusal,
            Ok(token) => {
                if let Some(token) = token {
                    parts.extensions.insert(token);
                }
                let inner = self.inner.call(Request::from_parts(parts, body));
                return ResponseFuture { state: State::Inner { inner } };
            }
        };
        ResponseFuture { state: State::Refused { refusal: Some(refusal) } }
    }
}

pin_project! {
    /// The response of a [`FenceService`]: the inner service's, or a refusal.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[derive(Debug)]
    enum State<F> {
        Inner { #[pin] inner: F },
        Refused { refusal: Option<Refusal> },
    }
}

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: From<String>,
{
    type Output = Result<Response<B>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Inner { inner } => inner.poll(cx),
            StateProjection::Refused { refusal } => match refusal.take() {
                Some(refusal) => Poll::Ready(Ok(refusal.response())),
                // Polled after completion, which the contract of `Future` leaves open.
                None => Poll::Pending,
            },
        }
    }
}
