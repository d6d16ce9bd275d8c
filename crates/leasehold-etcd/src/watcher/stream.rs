//! The stream of watches to one member: opened with a first watch, then written to and read from.

use std::collections::VecDeque;
use std::time::Duration;

use etcd_client::{
    WatchFilterType, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream,
};
use leasehold_core::Deadline;
use leasehold_core::clock::Clock;

use super::table::{Table, Watched, What};
use crate::error::{Cause, sort};
use crate::members::Members;

/// How long opening it may take.
const OPEN: Duration = Duration::from_secs(2);
/// How long one request may take to be sent.
const SEND: Duration = Duration::from_secs(5);

pub(super) struct Stream {
    /// The member that it leads to.
    pub(super) index: usize,
    sender: WatchRequestSender,
    responses: WatchResponseStream,
}

/// What is to be done on it.
pub(super) enum Request {
    /// A watch is to be made, and another to be ended.
    Create { number: i64, instead: Option<i64> },
    /// A watch is to be ended.
    Cancel(i64),
    /// It is to say whether it lives.
    Probe,
}

impl Stream {
    /// Opens one with a watch, as it must be; `None` after moving on to the next member.
    pub(super) async fn open(
        members: &Members,
        clock: &Clock,
        number: i64,
        watched: &Watched,
    ) -> Option<Self> {
        let limit = Deadline::after(clock.now(), OPEN);
        let (key, options) = (watched.key.clone(), options(number, watched));
        let mut at = None;
        let opening = async {
            let (index, client) = members.current().await?;
            at = Some(index);
            let stream = client.watch_client().watch(key, Some(options)).await?;
            let (sender, responses) = stream.split();
            Ok(Self { index, sender, responses })
        };
        let failed = match clock.within(Some(limit), opening).await {
            Some(Ok(stream)) => return Some(stream),
            failed => failed,
        };
        if let Some(Err(error)) = failed {
            match sort(error) {
                (Cause::Final, error) => tracing::warn!(%error, "cannot watch, trying again"),
                (_, error) => tracing::debug!(%error, "cannot watch, trying again"),
            }
        }
        if let Some(index) = at {
            members.move_on(index);
        }
        None
    }

    /// What the server says next; `None` when it has broken.
    pub(super) async fn next(&mut self) -> Option<WatchResponse> {
        self.responses.message().await.ok().flatten()
    }

    /// Sends a request; false if that cannot be done in time. Answers are read meanwhile, into
    /// `heard`: a server that cannot get rid of its own takes no more of ours.
    pub(super) async fn send(
        &mut self,
        request: Request,
        watched: &Table,
        heard: &mut VecDeque<WatchResponse>,
        clock: &Clock,
    ) -> bool {
        let Self { sender, responses, .. } = self;
        let limit = Deadline::after(clock.now(), SEND);
        let mut sending = std::pin::pin!(write(request, watched, sender));
        loop {
            let next = async {
                tokio::select! {
                    biased;
                    sent = &mut sending => Err(sent),
                    response = responses.message() => Ok(response),
                }
            };
            match clock.within(Some(limit), next).await {
                Some(Err(sent)) => return sent,
                Some(Ok(Ok(Some(response)))) => heard.push_back(response),
                Some(Ok(_)) | None => return false,
            }
        }
    }
}

/// Writes a request; false when the stream has broken.
async fn write(request: Request, watched: &Table, sender: &mut WatchRequestSender) -> bool {
    let (made, ended) = match request {
        Request::Create { number, instead } => (Some(number), instead),
        Request::Cancel(number) => (None, Some(number)),
        Request::Probe => return sender.request_progress().await.is_ok(),
    };
    if let Some(number) = ended
        && sender.cancel(number).await.is_err()
    {
        return false;
    }
    // It may have been left meanwhile.
    let made = made.and_then(|number| Some((number, &watched.get(number)?.1)));
    let Some((number, watched)) = made else { return true };
    sender.watch(watched.key.clone(), Some(options(number, watched))).await.is_ok()
}

/// Only that the key goes is of interest. An own key is watched from where it was last seen; the one
/// before in the line from now on, and looked at if anything was written since it was seen: a server
/// that has to go back for a watch does so every 100 ms, and no sooner.
fn options(number: i64, watched: &Watched) -> WatchOptions {
    let options = WatchOptions::new().with_watch_id(number).with_filters([WatchFilterType::NoPut]);
    match watched.what {
        What::Before => options,
        What::Own => options.with_start_revision(watched.revision + 1),
    }
}
