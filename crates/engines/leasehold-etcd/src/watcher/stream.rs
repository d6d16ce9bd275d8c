//! The watch stream to one member.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_core::Deadline;
use leasehold_core::clock::Clock;
use leasehold_etcd_api::{
    Client, WatchFilter, WatchOptions, WatchResponse, WatchResponses, WatchSender,
};

use super::table::{Table, Watched, What};
use crate::error::{Cause, sort};
use crate::members::Members;

/// How long opening the stream may take.
const OPEN: Duration = Duration::from_secs(2);
/// How long one request may take to be sent.
const SEND: Duration = Duration::from_secs(5);

pub(super) struct WatchStream {
    /// The index of the stream's member.
    pub(super) index: usize,
    sender: WatchSender,
    responses: WatchResponses,
}

/// A request on the stream.
pub(super) enum Request {
    /// Create a watch, and cancel another.
    Create { number: i64, instead: Option<i64> },
    /// Cancel a watch.
    Cancel(i64),
    /// Ask the server for a sign of life.
    Probe,
}

impl WatchStream {
    /// Opens the stream with a first watch, as etcd requires; `None` after a switch to the next member.
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
            let open = |client: Client| {
                let (key, options) = (key.clone(), options.clone());
                async move { client.watch(key, Some(options)).await }
            };
            members.open(&mut at, open).await
        };
        let failed = match clock.within(Some(limit), opening).await {
            Some(Ok(stream)) => {
                let (sender, responses) = stream.split();
                return at.map(|index| Self { index, sender, responses });
            }
            failed => failed,
        };
        if let Some(Err(error)) = failed {
            match sort(error) {
                (Cause::Final, error) => tracing::warn!(%error, "cannot watch; retrying"),
                (_, error) => tracing::debug!(%error, "cannot watch; retrying"),
            }
        }
        if let Some(index) = at {
            members.move_on(index);
        }
        None
    }

    /// Returns the server's next message; `None` if the stream has broken.
    pub(super) async fn next(&mut self) -> Option<WatchResponse> {
        self.responses.message().await.ok().flatten()
    }

    /// Sends a request; false if that takes too long. Meanwhile it reads answers into `heard`, because
    /// a server that cannot send its answers reads no requests.
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

/// Writes a request; false if the stream has broken.
async fn write(request: Request, watched: &Table, sender: &WatchSender) -> bool {
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
    // The attempt may have been removed meanwhile.
    let made = made.and_then(|number| Some((number, &watched.get(number)?.1)));
    let Some((number, watched)) = made else { return true };
    sender.watch(watched.key.clone(), Some(options(number, watched))).await.is_ok()
}

/// Returns the options of a watch. An own key is watched from the revision at which it was last seen, and
/// the writers behind a reader from the one at which the queue was read. What an attempt waits for is watched from now on,
/// and read if there were writes since it was seen, because a server starts a watch of the past only
/// every 100 ms.
fn options(number: i64, watched: &Watched) -> WatchOptions {
    let options = WatchOptions::new().with_watch_id(number);
    let options = match &watched.end {
        Some(end) => options.with_range(end.clone()),
        None => options,
    };
    let since = watched.revision + 1;
    match watched.what {
        What::Deletion => options.with_filters([WatchFilter::Noput]),
        What::Change | What::Slots => options,
        What::Own => options.with_filters([WatchFilter::Noput]).with_start_revision(since),
        What::Bound => options.with_start_revision(since),
        What::Writers => options.with_filters([WatchFilter::Nodelete]).with_start_revision(since),
    }
}
