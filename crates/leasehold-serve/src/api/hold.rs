//! Hold by connection: a stream of lines that lasts as long as the hold.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::access::Caller;
use crate::app::App;
use crate::granting::{Grant, PARAMS, Wish};
use crate::keeper::Ended;
use crate::leases::{self, Lease};
use crate::moment::Moment;
use crate::params::Params;
use crate::path::Path;
use crate::problem::Problem;
use crate::text;
use crate::tokens::Role;

/// A request that is answered within this time gets no line `queued`.
const AT_ONCE: Duration = Duration::from_millis(100);

/// How long the line `queued` waits for the queue of the store.
const PATIENCE: Duration = Duration::from_millis(500);

/// The lines that wait for a slow client. More heartbeats are left out.
const BEHIND: usize = 2;

type Granting = Pin<Box<dyn Future<Output = Result<Grant, Problem>> + Send>>;

/// The lines of a hold, and what they need.
struct Lines {
    app: App,
    received: Moment,
    out: mpsc::Sender<Bytes>,
    /// The end of the connection releases the lock at once.
    releases: bool,
}

/// `POST /v1/stores/{store}/locks/{name}/hold`.
pub(super) async fn hold(
    State(app): State<App>,
    caller: Caller,
    Path((store, name)): Path<(String, String)>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let received = Moment::now(&app.clock);
    let caller = caller.require(Role::Hold)?.name.clone();
    params.only(&[&PARAMS[..], &["on-close"]].concat())?;
    let releases = params.word("on-close", &["keep", "release"])? == "release";
    let wish = Wish::new(&app, (&store, &name), &caller, &params, &headers)?;
    let (shown, ahead, waits) = (wish.shown.clone(), wish.waiting.ahead, !wish.wait.is_zero());
    let shares = wish.asked.shares_a_place();
    let mut granting: Granting = Box::pin(wish.grant(app.clone()));
    // Until the first line, an error has a status of its own.
    let first = match waits {
        true => tokio::time::timeout(AT_ONCE, granting.as_mut()).await.ok(),
        false => Some(granting.as_mut().await),
    };
    let (out, lines) = mpsc::channel(BEHIND);
    let hold = Lines { app, received, out, releases };
    match first {
        Some(granted) => {
            let grant = granted?;
            // Queued before the response begins, so that both are sent at once.
            let is_queued = hold.out.try_send(hold.held(&grant)).is_ok();
            tokio::spawn(hold.keep(grant, is_queued));
        }
        None => {
            let waiters = async {
                let client = shown.store.client().await.ok()?;
                let status = client.lock(&name).status().await.ok()?;
                crate::show::waiting(&status)
            };
            let waiters = tokio::time::timeout(PATIENCE, waiters).await.ok().flatten();
            let waiters = waiters.unwrap_or_default();
            let place = match shares {
                // The tasks of this server have one place in the queue of the store.
                true => ahead + waiters.saturating_sub(1) + 1,
                false => waiters.max(ahead + 1),
            };
            tokio::spawn(hold.wait(granting, place));
        }
    }
    let body = Body::from_stream(ReceiverStream::new(lines).map(Ok::<_, Infallible>));
    let mut response = body.into_response();
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(CONTENT_TYPE, ndjson);
    Ok(response)
}

impl Lines {
    /// Waits for the lock, and keeps it. If the client closes the connection, it leaves the queue.
    async fn wait(self, mut granting: Granting, place: usize) {
        if self.send(&json!({ "queued": { "place": place } })).await.is_err() {
            return;
        }
        let granted = tokio::select! {
            () = self.out.closed() => return,
            granted = granting.as_mut() => granted,
        };
        match granted {
            Ok(grant) => {
                let is_sent = self.out.send(self.held(&grant)).await.is_ok();
                self.keep(grant, is_sent).await;
            }
            Err(problem) => {
                let _ = self.send(&json!({ "error": problem.json() })).await;
            }
        }
    }

    /// The line that says what the client holds.
    fn held(&self, grant: &Grant) -> Bytes {
        let Grant { id, lease, until } = grant;
        bytes(&json!({ "held": lease.granted(id, self.app.validity(self.received, *until)) }))
    }

    /// Sends heartbeats until the lease ends or the connection closes. `is_sent` tells whether the line `held` is
    /// on its way.
    async fn keep(self, grant: Grant, is_sent: bool) {
        let Grant { lease, until, .. } = grant;
        if !is_sent {
            // The client has never seen that it holds the lock.
            let _ = lease.release().await;
            return;
        }
        let mut ended = lease.ended.clone();
        let mut ended =
            pin!(
                async move { ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended) }
            );
        let mut pause = until.since(Moment::now(&self.app.clock)) / 3;
        loop {
            tokio::select! {
                biased;
                ended = ended.as_mut() => {
                    let _ = self.send(&end(ended.unwrap_or(Ended::Expired))).await;
                    return;
                }
                () = self.out.closed() => {
                    if self.releases {
                        let _ = lease.release().await;
                    }
                    return;
                }
                () = self.app.clock.sleep(pause) => {
                    if let Some(validity) = self.heartbeat(&lease).await {
                        pause = validity / 3;
                    }
                }
            }
        }
    }

    /// Renews the lease if the client reads what it is sent. Only a validity that is sent counts.
    async fn heartbeat(&self, lease: &Lease) -> Option<Duration> {
        let place = self.out.try_reserve().ok()?;
        let until = lease.renew().await.ok()?;
        let validity = self.app.validity(self.received, until);
        place.send(bytes(&json!({ "heartbeat": validity.json() })));
        Some(until.since(validity.now))
    }

    async fn send(&self, line: &Value) -> Result<(), mpsc::error::SendError<Bytes>> {
        self.out.send(bytes(line)).await
    }
}

/// The last line of a hold.
fn end(ended: Ended) -> Value {
    match ended {
        Ended::Released => json!({ "released": {} }),
        Ended::Stopped => json!({ "ending": leases::problem(ended).json() }),
        Ended::Lost(_) | Ended::Expired | Ended::Releasing => {
            let mut lost = leases::problem(ended).json();
            if let Ended::Lost(reason) = ended {
                lost["reason"] = reason.to_string().into();
            }
            json!({ "lost": lost })
        }
    }
}

fn bytes(line: &Value) -> Bytes {
    (text::json(line) + "\n").into()
}
