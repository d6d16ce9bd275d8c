//! The connection to a server, and what each call on it carries.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

#[cfg(feature = "tls")]
use crate::TlsOptions;
use crate::error::Result;

/// The header with the token of the login.
const TOKEN: &str = "token";
/// The header of calls that the server refuses while it knows no leader.
const NEEDS_LEADER: &str = "hasleader";

/// A connection with its headers. Cheap to clone.
pub(crate) type Service = InterceptedService<Channel, Headers>;

/// How a client connects and logs in.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    pub(crate) user: Option<(String, String)>,
    connect_timeout: Option<Duration>,
    keep_alive: Option<(Duration, Duration)>,
    needs_leader: bool,
    #[cfg(feature = "tls")]
    tls: Option<TlsOptions>,
}

impl ConnectOptions {
    /// Returns the defaults: no user, no time limit, no pings, certificates of the system's authorities.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Logs in as this user.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((user.into(), password.into()));
        self
    }

    /// Limits how long the server may take to accept a connection.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Sends HTTP/2 pings at this interval, also between calls, and closes the connection if one is not answered within
    /// `timeout`.
    #[must_use]
    pub fn with_keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.keep_alive = Some((interval, timeout));
        self
    }

    /// Lets the server refuse a call, and end a stream, while it knows no leader.
    #[must_use]
    pub fn with_require_leader(mut self, needs_leader: bool) -> Self {
        self.needs_leader = needs_leader;
        self
    }

    /// Sets the authorities and the client's certificate for URLs that begin with `https:`.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    #[must_use]
    pub fn with_tls(mut self, tls: TlsOptions) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Returns a connection that opens at its first use. It needs a tokio runtime.
    pub(crate) fn channel(&self, url: &str) -> Result<Channel> {
        let mut endpoint = Endpoint::from_shared(url.to_owned())?;
        #[cfg(feature = "tls")]
        if url.starts_with("https:") {
            let system = || TlsOptions::new().with_enabled_roots();
            endpoint = endpoint.tls_config(self.tls.clone().unwrap_or_else(system))?;
        }
        if let Some((interval, timeout)) = self.keep_alive {
            endpoint = endpoint
                .keep_alive_while_idle(true)
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(timeout);
        }
        if let Some(timeout) = self.connect_timeout {
            endpoint = endpoint.connect_timeout(timeout);
        }
        Ok(endpoint.connect_lazy())
    }

    /// Returns the headers of a client's calls, without a token at first.
    pub(crate) fn headers(&self) -> Headers {
        Headers { needs_leader: self.needs_leader, token: Arc::default() }
    }
}

/// Shows no password.
impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("user", &self.user.as_ref().map(|(user, _)| user))
            .field("connect_timeout", &self.connect_timeout)
            .field("keep_alive", &self.keep_alive)
            .field("needs_leader", &self.needs_leader)
            .finish_non_exhaustive()
    }
}

/// Adds headers to each call. Clones share the token.
#[derive(Clone)]
pub(crate) struct Headers {
    needs_leader: bool,
    token: Arc<RwLock<Option<MetadataValue<Ascii>>>>,
}

impl Headers {
    /// Sends this token from now on.
    pub(crate) fn set_token(&self, token: MetadataValue<Ascii>) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    /// Returns the headers of a login, which carries no earlier token.
    pub(crate) fn without_token(&self) -> Self {
        Self { token: Arc::default(), ..*self }
    }
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> std::result::Result<Request<()>, Status> {
        if let Some(token) = &*self.token.read().unwrap_or_else(PoisonError::into_inner) {
            request.metadata_mut().insert(TOKEN, token.clone());
        }
        if self.needs_leader {
            request.metadata_mut().insert(NEEDS_LEADER, MetadataValue::from_static("true"));
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_carries_no_token_and_other_calls_carry_the_last_one() {
        let headers = ConnectOptions::new().with_require_leader(true).headers();
        let sent = |mut headers: Headers| headers.call(Request::new(())).unwrap().into_parts().0;
        assert!(sent(headers.clone()).get(TOKEN).is_none());
        for token in ["first.1", "second.2"] {
            headers.set_token(token.parse().unwrap());
            let all = sent(headers.clone());
            assert_eq!(all.get_all(TOKEN).iter().collect::<Vec<_>>(), [token]);
            assert_eq!(all.get(NEEDS_LEADER).unwrap(), "true");
        }
        let login = sent(headers.without_token());
        assert!(login.get(TOKEN).is_none() && login.get(NEEDS_LEADER).is_some());
        assert!(sent(ConnectOptions::new().headers()).is_empty());
    }

    #[test]
    fn no_password_is_shown() {
        let options = ConnectOptions::new().with_user("ann", "secret");
        let shown = format!("{options:?}");
        assert!(shown.contains("ann") && !shown.contains("secret"), "{shown}");
    }
}
