//! The tower layer, and what it asks of a request.

use std::fmt;
use std::sync::Arc;

use ::http::Method;
use ::http::request::Parts;
use tower_layer::Layer;

use super::header::token_in;
use super::refusal::Refusal;
use super::service::FenceService;
use crate::Token;
use crate::fence::Fence;

/// What becomes of a request that should be fenced and carries no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Missing {
    /// 428 Precondition Required, unless the method is safe (GET, HEAD, OPTIONS, TRACE). The
    /// default: a fence with an open gate beside it stops nobody.
    #[default]
    Require,
    /// It passes unchecked; for the time until every client sends its token.
    Allow,
}

/// Refuses requests whose token is smaller than the largest seen for their resource; see the
/// [module](super). Clones share what they have seen.
#[derive(Clone)]
pub struct FenceLayer {
    fence: Arc<Fence>,
    missing: Missing,
    resource: Arc<Resource>,
}

type Resource = dyn Fn(&Parts) -> Option<String> + Send + Sync;

impl FenceLayer {
    /// A layer with a fence of its own; the resource is the request's path, and a token is
    /// required.
    pub fn new() -> Self {
        Self::sharing(Arc::new(Fence::new()))
    }

    /// A layer over a fence that others use too, or that has a capacity of its own.
    pub fn sharing(fence: Arc<Fence>) -> Self {
        let path = |parts: &Parts| Some(parts.uri.path().to_owned());
        Self { fence, missing: Missing::default(), resource: Arc::new(path) }
    }

    /// What becomes of a request without a token. Default: [`Missing::Require`].
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Which resource a request is about; `None` lets it pass unchecked. Default: its path, byte
    /// by byte and without the query, so `/a` and `/a/` and `/%61` are three.
    ///
    /// It must be what the lock protects, and decided by the server: a client that named the
    /// resource itself could name another one.
    pub fn resource(
        mut self,
        resource: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.resource = Arc::new(resource);
        self
    }

    /// Decides on a request: `None` for one that is not fenced, or the token that it came with.
    pub(super) fn decide(&self, parts: &Parts) -> Result<Option<Token>, Refusal> {
        let Some(resource) = (self.resource)(parts) else { return Ok(None) };
        match token_in(&parts.headers)? {
            Some(token) => {
                self.fence.check(resource, token)?;
                Ok(Some(token))
            }
            None if self.missing == Missing::Allow || is_safe(&parts.method) => Ok(None),
            None => Err(Refusal::Required),
        }
    }
}

impl Default for FenceLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FenceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceLayer").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> FenceService<S> {
        FenceService::new(self.clone(), inner)
    }
}

/// RFC 9110, section 9.2.1.
fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}
