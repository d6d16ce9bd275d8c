//! The tower layer and its requirements for a request.

use std::fmt;
use std::sync::Arc;

use ::http::Method;
use ::http::request::Parts;

use super::header::token_in;
use super::refusal::Refusal;
use crate::Token;
use crate::fence::Fence;

/// What the layer does with a request that should be fenced and has no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Missing {
    /// Refuses the request with 428 Precondition Required, unless the method is safe (GET, HEAD,
    /// OPTIONS, TRACE). The default, because a client without a token must not bypass the fence.
    #[default]
    Require,
    /// Accepts the request without a check. Use it until every client sends its token.
    Allow,
}

/// Refuses requests whose token is smaller than the largest seen for their resource; see the
/// [module](super). Clones share one fence.
#[derive(Clone)]
pub struct FenceLayer {
    fence: Arc<Fence>,
    missing: Missing,
    resource: Arc<Resource>,
}

type Resource = dyn Fn(&Parts) -> Option<String> + Send + Sync;

impl FenceLayer {
    /// Creates a layer with its own fence. The resource is the request's path, and a token is
    /// required.
    pub fn new() -> Self {
        Self::sharing(Arc::new(Fence::new()))
    }

    /// Creates a layer with an existing fence: one that is shared, or has another capacity.
    pub fn sharing(fence: Arc<Fence>) -> Self {
        let path = |parts: &Parts| Some(parts.uri.path().to_owned());
        Self { fence, missing: Missing::default(), resource: Arc::new(path) }
    }

    /// Sets what the layer does with a request without a token. Default: [`Missing::Require`].
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Sets the function that returns the resource of a request; `None` accepts the request without a
    /// check. Default: its path, byte by byte and without the query, so `/a`, `/a/` and `/%61` are
    /// three resources.
    ///
    /// The resource must be what the lock protects. Compute it on the server: a client that names the
    /// resource could name another one.
    #[must_use]
    pub fn resource(
        mut self,
        resource: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.resource = Arc::new(resource);
        self
    }

    /// Checks a request. Returns its token, or `None` if the request is not fenced.
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

/// Returns true for a safe method (RFC 9110, section 9.2.1).
fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}
