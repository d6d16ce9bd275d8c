//! A stream of what changes, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::access::Caller;
use crate::app::App;
use crate::keeper::stopped;
use crate::params::Params;
use crate::problem::Problem;
use crate::tokens::Role;
use crate::viewing::Viewing;
use crate::watching;

/// A comment is sent this often, so that a closed connection is noticed.
pub(super) const QUIET: Duration = Duration::from_secs(15);

/// This comment.
pub(super) const SILENCE: Bytes = Bytes::from_static(b": quiet\n\n");

/// The last event before the server ends.
pub(super) const STOPPING: Bytes = Bytes::from_static(b"event: stopping\ndata: {}\n\n");

/// The events that wait for a slow viewer.
const BEHIND: usize = 16;

/// `GET /v1/events`.
pub(super) async fn events(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    params.only(&["store", "name", "prefix"])?;
    let wanted = |name| params.get(name).map(str::to_owned);
    let (store, name, prefix) = (wanted("store"), wanted("name"), wanted("prefix"));
    let shown = store.as_deref().map(|store| app.shown(store)).transpose()?;
    // Of one lock, an engine that pushes shows more than the scans see.
    let watched = shown.zip(name.as_deref());
    let watched = watched.and_then(|(shown, name)| watching::watch(&app, shown, name));
    let viewing = (app.stream()?, Viewing::of(&app));
    let mut live = app.live.subscribe();
    let mut stopping = app.stopping.clone();
    Ok(stream(|out| async move {
        let _viewing = (viewing, watched);
        if out.send(Bytes::from_static(b"retry: 2000\n\nevent: hello\ndata: {}\n\n")).await.is_err()
        {
            return;
        }
        loop {
            let event = tokio::select! {
                event = live.recv() => match event {
                    Ok(live) => {
                        let is_wanted = store.as_ref().is_none_or(|store| *store == live.store)
                            && name.as_ref().is_none_or(|name| *name == live.name)
                            && prefix.as_ref().is_none_or(|start| live.name.starts_with(start));
                        if !is_wanted {
                            continue;
                        }
                        Bytes::from(format!("event: change\ndata: {}\n\n", live.json))
                    }
                    // The viewer was too slow: it has to look at everything again.
                    Err(RecvError::Lagged(_)) => Bytes::from_static(b"event: resync\ndata: {}\n\n"),
                    Err(RecvError::Closed) => return,
                },
                () = app.clock.sleep(QUIET) => SILENCE,
                () = stopped(&mut stopping) => {
                    let _ = out.try_send(STOPPING);
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

/// Returns a response whose events a task sends, until it ends.
pub(super) fn stream<T, F>(send: T) -> Response
where
    T: FnOnce(mpsc::Sender<Bytes>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (out, lines) = mpsc::channel(BEHIND);
    tokio::spawn(send(out));
    let body = Body::from_stream(ReceiverStream::new(lines).map(Ok::<_, Infallible>));
    let mut response = body.into_response();
    let stream = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, stream);
    response
}
