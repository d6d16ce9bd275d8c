//! The stream that keeps leases alive.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::LeaseKeepAliveResponse;
use crate::connect::Service;
use crate::error::{Error, Result, closed};
use crate::generated::etcdserverpb::LeaseKeepAliveRequest;
use crate::generated::etcdserverpb::lease_client::LeaseClient;

/// How many requests may wait to be sent.
const AHEAD: usize = 100;

/// Sends requests on a stream that keeps leases alive. The stream ends when it is dropped.
#[derive(Debug)]
pub struct KeepAliveSender(mpsc::Sender<LeaseKeepAliveRequest>);

impl KeepAliveSender {
    /// Keeps a lease alive; the answer comes on the stream.
    ///
    /// # Errors
    /// [`Error::Closed`] if the stream has ended.
    pub async fn keep_alive(&self, id: i64) -> Result<()> {
        self.0.send(LeaseKeepAliveRequest { id }).await.map_err(closed)
    }
}

/// The answers of a stream that keeps leases alive.
#[derive(Debug)]
pub struct KeepAliveResponses(Streaming<LeaseKeepAliveResponse>);

impl KeepAliveResponses {
    /// Returns the next answer; `None` at the end. The `ttl` of an expired lease is 0.
    ///
    /// # Errors
    /// [`Error::Status`] if the stream breaks.
    pub async fn message(&mut self) -> Result<Option<LeaseKeepAliveResponse>> {
        Ok(self.0.message().await?)
    }
}

/// Opens the stream with a request for this lease, and waits for its answer.
pub(crate) async fn open(
    mut leases: LeaseClient<Service>,
    id: i64,
) -> Result<(KeepAliveSender, KeepAliveResponses)> {
    let (requests, receiver) = mpsc::channel(AHEAD);
    let sender = KeepAliveSender(requests);
    sender.keep_alive(id).await?;
    let answers = leases.lease_keep_alive(ReceiverStream::new(receiver)).await?.into_inner();
    let mut responses = KeepAliveResponses(answers);
    match responses.message().await? {
        Some(first) if first.ttl > 0 => Ok((sender, responses)),
        Some(_) => Err(Error::NoLease),
        None => Err(Error::Closed),
    }
}
