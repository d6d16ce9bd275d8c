//! Forced releases: each names the token that it means, and leaves a record.

use http::StatusCode;
use leasehold::{Forced, Token};
use serde_json::json;

use crate::access::Caller;
use crate::app::App;
use crate::history::{Event, What};
use crate::problem::Problem;
use crate::tokens::Role;

/// The longest reason, in bytes.
const LONGEST: usize = 500;

/// A forced release as its caller wants it.
#[derive(Debug)]
pub(crate) struct Order {
    store: String,
    name: String,
    pub(crate) token: Token,
    reason: String,
}

impl Order {
    /// Checks an order.
    pub(crate) fn new(
        store: &str,
        name: &str,
        token: Option<&str>,
        reason: Option<&str>,
    ) -> Result<Self, Problem> {
        let token = token.and_then(|token| token.parse().ok()).and_then(Token::new);
        let token = token
            .ok_or_else(|| Problem::invalid("token: name the token of the lease that shall end"))?;
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        let reason = reason.filter(|reason| reason.len() <= LONGEST).ok_or_else(|| {
            Problem::invalid(format!("reason: say why, in at most {LONGEST} bytes"))
        })?;
        let (store, name, reason) = (store.to_owned(), name.to_owned(), reason.to_owned());
        Ok(Self { store, name, token, reason })
    }
}

/// Returns the name of a caller that may end leases by force.
pub(crate) fn allowed<'a>(app: &App, caller: &'a Caller) -> Result<&'a str, Problem> {
    if !app.may_force {
        let detail = "this server ends no lease by force";
        let next = "start it with --allow-force-release, or use `leasehold force-release`";
        return Err(Problem::new(StatusCode::FORBIDDEN, "force_not_allowed", detail, next));
    }
    Ok(&caller.require(Role::Force)?.name)
}

/// Ends the lease, if its token is the current one. Returns `ended`.
pub(crate) async fn force(app: &App, caller: &str, order: Order) -> Result<&'static str, Problem> {
    let Order { store, name, token, reason } = order;
    let client = app.shown(&store)?.store.client().await?;
    let mut entry = json!({
        "what": "force-release",
        "at_unix_ms": app.clock.now().unix_ms(),
        "who": caller,
        "store": store,
        "lock": name,
        "token": token.get(),
        "reason": reason,
        "result": "asked",
    });
    // Without a record, nothing is ended.
    app.audit.write(&entry).map_err(|error| {
        let detail = format!("the audit record cannot be written: {error}; nothing was changed");
        let next = "make room for the file of --audit-file";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "audit", detail, next)
    })?;
    let forced = client.lock(&name).force_release(token).await;
    let result = match &forced {
        Ok(Forced::Ended) => "ended",
        Ok(Forced::NotHeld) => "not_held",
        Ok(Forced::Several) => "several",
        Ok(_) => "other",
        Err(_) => "failed",
    };
    entry["result"] = result.into();
    // The first line names the lease already.
    let _ = app.audit.write(&entry);
    let conflict = |detail: String| {
        let next = "look at the lock again: the token names the lease that is meant";
        Err(Problem::new(StatusCode::CONFLICT, "stale_token", detail, next))
    };
    match forced? {
        Forced::Ended => {}
        Forced::Other(current) => {
            return conflict(format!(
                "token {token} is not the current one, {current}; nothing was changed"
            ));
        }
        Forced::Several => {
            return conflict(format!(
                "several permits have token {token}, and nothing was changed; wait for the end of \
                 one of them"
            ));
        }
        _ => return conflict("no client holds the lock; nothing was changed".to_owned()),
    }
    let mut event = Event::new(What::Forced, app.clock.now().unix_ms());
    event.token = Some(token.get());
    event.who = Some(caller.to_owned());
    event.reason = Some(reason);
    app.note(&store, &name, event);
    Ok(result)
}
