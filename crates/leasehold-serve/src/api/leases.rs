//! Hold by lease: a secret id, which the client renews.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};

use super::answer;
use crate::access::Caller;
use crate::app::App;
use crate::granting::{PARAMS, Wish};
use crate::moment::Moment;
use crate::params::Params;
use crate::path::Path;
use crate::problem::Problem;
use crate::repeats::{self, Repeat};
use crate::tokens::Role;

/// The header that makes an acquire repeatable.
const KEY: &str = "idempotency-key";

/// `POST /v1/stores/{store}/locks/{name}/acquire`.
pub(super) async fn acquire(
    State(app): State<App>,
    caller: Caller,
    Path((store, name)): Path<(String, String)>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let received = Moment::now(&app.clock);
    let caller = caller.require(Role::Hold)?.name.clone();
    params.only(&PARAMS)?;
    let Some(key) = headers.get(KEY) else {
        let wish = Wish::new(&app, (&store, &name), &caller, &params, &headers)?;
        let grant = wish.grant(app.clone()).await?;
        let validity = app.validity(received, grant.until);
        return Ok(answer(&grant.lease.granted(&grant.id, validity)));
    };
    let key = key.to_str().map_err(|_| Problem::invalid("Idempotency-Key: use ASCII text"))?;
    let mut asked = vec![store.as_str(), name.as_str()];
    asked.extend(params.pairs().flat_map(|(name, value)| [name, value]));
    let (id, lease) = match app.repeats.begin(&caller, key, &asked)? {
        Repeat::Again(outcome) => repeats::outcome(outcome).await?,
        Repeat::First(outcome) => {
            let wish = Wish::new(&app, (&store, &name), &caller, &params, &headers);
            let ends = outcome.subscribe();
            // A task of its own: a client that repeats the request may have closed this connection.
            tokio::spawn({
                let app = app.clone();
                async move {
                    let done = match wish {
                        Ok(wish) => wish.grant(app).await.map(|grant| (grant.id, grant.lease)),
                        Err(problem) => Err(problem),
                    };
                    outcome.send_replace(Some(done));
                }
            });
            repeats::outcome(ends).await?
        }
    };
    // The validity that is left: a repeated request does not extend it.
    let until = lease.left().await?;
    Ok(answer(&lease.granted(&id, app.validity(received, until))))
}

/// `POST /v1/stores/{store}/locks/{name}/leases/{lease}/renew`.
pub(super) async fn renew(
    State(app): State<App>,
    caller: Caller,
    Path((store, name, id)): Path<(String, String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    let received = Moment::now(&app.clock);
    let caller = &caller.require(Role::Hold)?.name;
    params.only(&[])?;
    let lease = app.leases.find(&id, &store, &name, caller)?;
    let until = lease.renew().await?;
    let mut renewed = app.validity(received, until).json();
    renewed["token"] = lease.token.get().into();
    Ok(answer(&renewed))
}

/// `DELETE /v1/stores/{store}/locks/{name}/leases/{lease}`.
pub(super) async fn release(
    State(app): State<App>,
    caller: Caller,
    Path((store, name, id)): Path<(String, String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    let caller = &caller.require(Role::Hold)?.name;
    params.only(&[])?;
    app.leases.find(&id, &store, &name, caller)?.release().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
