//! The form of the lock page that ends a lease by force.

use axum::Form;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderMap;

use super::lang::Lang;
use super::layout::Page;
use super::links;
use super::login::check_form;
use crate::access::Caller;
use crate::app::App;
use crate::forcing::{self, Order};
use crate::params::Params;

/// `POST /force-release`.
pub(super) async fn force_release(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let lang = Lang::of(&headers);
    let title = lang.pick("End the lease by force", "强制结束租约");
    let now_unix_ms = app.clock.now().unix_ms();
    let page = Page { lang, caller: &caller, title, live: None, now_unix_ms };
    let done = async {
        let who = forcing::allowed(&app, &caller)?;
        let fields = Params::new(fields)?;
        check_form(&caller, fields.get("form"))?;
        let store = fields.get("store").unwrap_or_default();
        let name = fields.get("name").unwrap_or_default();
        let order = Order::new(store, name, fields.get("token"), fields.get("reason"))?;
        forcing::force(&app, who, order).await?;
        Ok(links::lock(store, name))
    };
    match done.await {
        Ok(lock) => Redirect::to(&lock).into_response(),
        Err(problem) => page.problem(&problem),
    }
}
