//! Ends a lease by force, for callers with the role `force`.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::answer;
use crate::access::Caller;
use crate::app::App;
use crate::forcing::{self, Order};
use crate::params::Params;
use crate::path::Path;
use crate::problem::Problem;

/// `POST /v1/stores/{store}/locks/{name}/force-release`.
pub(super) async fn force_release(
    State(app): State<App>,
    caller: Caller,
    Path((store, name)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    let caller = forcing::allowed(&app, &caller)?;
    params.only(&["token", "reason"])?;
    let order = Order::new(&store, &name, params.get("token"), params.get("reason"))?;
    let token = order.token;
    let result = forcing::force(&app, caller, order).await?;
    Ok(answer(&json!({ "result": result, "token": token.get() })))
}
