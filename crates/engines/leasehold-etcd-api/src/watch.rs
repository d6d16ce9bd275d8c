//! The stream of watches.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::connect::Service;
use crate::error::{Result, closed};
use crate::generated::etcdserverpb::watch_client::WatchClient;
use crate::generated::etcdserverpb::watch_request::RequestUnion;
use crate::generated::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest,
};
use crate::{WatchFilter, WatchResponse};

/// How many requests may wait to be sent.
const AHEAD: usize = 100;

/// What a watch reports. The default is each change of the key from now on.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions(WatchCreateRequest);

impl WatchOptions {
    /// Watches the key from now on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches the keys from the key to before this one.
    #[must_use]
    pub fn with_range(mut self, end: impl Into<Vec<u8>>) -> Self {
        self.0.range_end = end.into();
        self
    }

    /// Reports the changes from this revision on, which must not be compacted.
    #[must_use]
    pub fn with_start_revision(mut self, revision: i64) -> Self {
        self.0.start_revision = revision;
        self
    }

    /// Leaves out kinds of changes.
    #[must_use]
    pub fn with_filters(mut self, filters: impl IntoIterator<Item = WatchFilter>) -> Self {
        self.0.filters = filters.into_iter().map(i32::from).collect();
        self
    }

    /// Gives the watch a number, which no other watch of the stream may have. The server chooses it if it is 0.
    #[must_use]
    pub fn with_watch_id(mut self, number: i64) -> Self {
        self.0.watch_id = number;
        self
    }

    pub(crate) fn request(mut self, key: Vec<u8>) -> WatchCreateRequest {
        self.0.key = key;
        self.0
    }
}

/// A stream of watches to one server.
#[derive(Debug)]
pub struct WatchStream {
    sender: WatchSender,
    responses: WatchResponses,
}

/// Sends requests on a stream of watches. The stream ends when it is dropped.
#[derive(Debug)]
pub struct WatchSender(mpsc::Sender<WatchRequest>);

/// The messages of a stream of watches.
#[derive(Debug)]
pub struct WatchResponses(Streaming<WatchResponse>);

impl WatchSender {
    async fn send(&self, request: RequestUnion) -> Result<()> {
        self.0.send(WatchRequest { request_union: Some(request) }).await.map_err(closed)
    }

    /// Creates another watch.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the stream has ended.
    pub async fn watch(
        &self,
        key: impl Into<Vec<u8>>,
        options: Option<WatchOptions>,
    ) -> Result<()> {
        let request = options.unwrap_or_default().request(key.into());
        self.send(RequestUnion::CreateRequest(request)).await
    }

    /// Cancels a watch.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the stream has ended.
    pub async fn cancel(&self, watch_id: i64) -> Result<()> {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id })).await
    }

    /// Asks the server for a message, which shows the revision up to which it has reported.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the stream has ended.
    pub async fn request_progress(&self) -> Result<()> {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {})).await
    }
}

impl WatchResponses {
    /// Returns the next message; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) if the stream breaks.
    pub async fn message(&mut self) -> Result<Option<WatchResponse>> {
        Ok(self.0.message().await?)
    }
}

impl WatchStream {
    /// Returns the two halves of the stream.
    #[must_use]
    pub fn split(self) -> (WatchSender, WatchResponses) {
        (self.sender, self.responses)
    }

    /// Creates another watch, as [`WatchSender::watch`] does.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the stream has ended.
    pub async fn watch(
        &self,
        key: impl Into<Vec<u8>>,
        options: Option<WatchOptions>,
    ) -> Result<()> {
        self.sender.watch(key, options).await
    }

    /// Cancels a watch.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the stream has ended.
    pub async fn cancel(&self, watch_id: i64) -> Result<()> {
        self.sender.cancel(watch_id).await
    }

    /// Asks the server for a message, as [`WatchSender::request_progress`] does.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the stream has ended.
    pub async fn request_progress(&self) -> Result<()> {
        self.sender.request_progress().await
    }

    /// Returns the next message; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) if the stream breaks.
    pub async fn message(&mut self) -> Result<Option<WatchResponse>> {
        self.responses.message().await
    }
}

/// Opens the stream with a first watch.
pub(crate) async fn open(
    mut watches: WatchClient<Service>,
    first: WatchCreateRequest,
) -> Result<WatchStream> {
    let (requests, receiver) = mpsc::channel(AHEAD);
    let sender = WatchSender(requests);
    sender.send(RequestUnion::CreateRequest(first)).await?;
    let answers = watches.watch(ReceiverStream::new(receiver)).await?.into_inner();
    Ok(WatchStream { sender, responses: WatchResponses(answers) })
}
