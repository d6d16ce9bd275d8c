//! The leader of an election, now and as it changes.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::{answer, events};
use crate::access::Caller;
use crate::app::App;
use crate::keeper::stopped;
use crate::params::Params;
use crate::path::Path;
use crate::problem::Problem;
use crate::text;
use crate::tokens::Role;
use leasehold::Leader;

/// `GET /v1/stores/{store}/locks/{name}/leader`.
pub(super) async fn leader(
    State(app): State<App>,
    caller: Caller,
    Path((store, name)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    params.only(&[])?;
    let client = app.shown(&store)?.store.client().await?;
    let leader = client.election(&name).leader().await?;
    Ok(answer(&shown(leader.as_ref())))
}

/// `GET /v1/stores/{store}/locks/{name}/leader/events`.
pub(super) async fn changes(
    State(app): State<App>,
    caller: Caller,
    Path((store, name)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    params.only(&[])?;
    let client = app.shown(&store)?.store.client().await?;
    let place = app.stream()?;
    let mut leaders = client.election(&name).observe().await?;
    let mut stopping = app.stopping.clone();
    Ok(events::stream(|out| async move {
        let _place = place;
        loop {
            let event = tokio::select! {
                leader = leaders.next() => match leader {
                    Some(leader) => {
                        let data = text::json(&shown(leader.as_ref()));
                        format!("event: leader\ndata: {data}\n\n").into()
                    }
                    None => return,
                },
                () = app.clock.sleep(events::QUIET) => events::SILENCE,
                () = stopped(&mut stopping) => {
                    let _ = out.try_send(events::STOPPING);
                    return;
                }
                () = out.closed() => return,
            };
            if out.send(event).await.is_err() {
                return;
            }
        }
    }))
}

fn shown(leader: Option<&Leader>) -> Value {
    let leader = leader.map(|leader| {
        json!({
            "candidate": leader.candidate,
            "token": leader.token.get(),
            "since_unix_ms": leader.since_unix_ms,
        })
    });
    json!({ "leader": leader })
}
