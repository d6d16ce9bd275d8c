//! Decides who a caller is, and what it may do.

use axum::extract::FromRequestParts;
use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use crate::app::App;
use crate::problem::Problem;
use crate::sessions;
use crate::tokens::{Principal, Role};

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    principal: Option<Principal>,
    /// The secret of its session, if it is a browser that has logged in.
    pub(crate) session: Option<String>,
    /// It has shown a token, now or when it logged in.
    is_known: bool,
}

impl Caller {
    /// Finds the sender of a request with these headers.
    pub(crate) fn of(app: &App, headers: &HeaderMap) -> Result<Self, Problem> {
        if let Some(header) = headers.get(AUTHORIZATION) {
            let token = header.to_str().ok().and_then(bearer);
            let found = token.zip(app.tokens.as_ref()).and_then(|(token, all)| all.find(token));
            let principal = Some(found.cloned().ok_or_else(wrong_token)?);
            return Ok(Self { principal, session: None, is_known: true });
        }
        if let Some(session) = cookie(headers)
            && let Some(principal) = app.sessions.find(session)
        {
            let session = Some(session.to_owned());
            return Ok(Self { principal: Some(principal), session, is_known: true });
        }
        Ok(Self { principal: app.anonymous.clone(), session: None, is_known: false })
    }

    /// Returns the caller if it has a role.
    pub(crate) fn require(&self, role: Role) -> Result<&Principal, Problem> {
        match &self.principal {
            Some(principal) if principal.roles.has(role) => Ok(principal),
            Some(principal) if self.is_known => {
                let detail = format!(
                    "the token of {} does not have the role {}",
                    principal.name,
                    role.word()
                );
                let next = "use a token with that role, or change the token file";
                Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail, next))
            }
            _ => {
                let detail = format!("this needs a token with the role {}", role.word());
                let next = "send the header `Authorization: Bearer TOKEN` with a token of the \
                            server's --token-file";
                Err(Problem::new(StatusCode::UNAUTHORIZED, "no_token", detail, next))
            }
        }
    }

    /// Returns its name, if it has shown a token.
    pub(crate) fn name(&self) -> Option<&str> {
        self.principal.as_ref().filter(|_| self.is_known).map(|principal| principal.name.as_str())
    }

    /// Returns true if it has a role.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.require(role).is_ok()
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Self::of(app, &parts.headers)
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = all.flat_map(|header| header.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(sessions::COOKIE)?.strip_prefix('='))
}

fn wrong_token() -> Problem {
    let next = "use a token of the server's --token-file";
    Problem::new(StatusCode::UNAUTHORIZED, "wrong_token", "the token is unknown", next)
}
