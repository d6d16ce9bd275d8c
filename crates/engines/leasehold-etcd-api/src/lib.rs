//! The etcd client of Leasehold: the calls that its engine, tests and benchmarks make, and no others.
//!
//! Programs do not use this crate: they use `leasehold` with the feature `etcd`. Its interface changes with the engine.
//!
//! The messages are those of etcd's gRPC API. Their code is committed, generated from etcd's `.proto` files, so a build needs no
//! `protoc`. [`Client`] adds a method for each call, the token of the login to each call, and the two streams.
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> leasehold_etcd_api::Result<()> {
//! use leasehold_etcd_api::{Client, ConnectOptions, GetOptions};
//!
//! let client = Client::connect("http://127.0.0.1:2379", &ConnectOptions::new()).await?;
//! let found = client.get("locks/", Some(GetOptions::new().with_prefix())).await?;
//! println!("{} keys", found.kvs.len());
//! # Ok(()) }
//! ```
//!
//! - [`Client::connect`] opens no connection without a user: the first call does, and each call after a broken connection opens
//!   another one. A call that cannot connect fails.
//! - A client speaks to one server. The engine switches between the members of a cluster.
//! - A call whose login has expired fails. [`Client::log_in`] logs in again.
//! - No call has a time limit. If a future is dropped, the call may have been executed.
//! - A message from the server has at most 4 MiB, as tonic limits it.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod connect;
mod error;
mod generated;
mod keep_alive;
mod options;
mod txn;
mod watch;

pub use client::Client;
pub use connect::ConnectOptions;
pub use error::{Error, Result};
pub use generated::etcdserverpb::compare::CompareResult as CompareOp;
pub use generated::etcdserverpb::range_request::{SortOrder, SortTarget};
pub use generated::etcdserverpb::response_op::Response as OpResponse;
pub use generated::etcdserverpb::watch_create_request::FilterType as WatchFilter;
pub use generated::etcdserverpb::{
    AlarmMember, AlarmResponse, AlarmType, CompactionResponse, Compare, DeleteRangeResponse,
    LeaseGrantResponse, LeaseKeepAliveResponse, LeaseLeasesResponse, LeaseRevokeResponse,
    LeaseStatus, LeaseTimeToLiveResponse, Member, MemberListResponse, PutResponse, RangeResponse,
    RequestOp as TxnOp, ResponseHeader, ResponseOp, StatusResponse, TxnRequest as Txn, TxnResponse,
    WatchResponse,
};
pub use generated::mvccpb::event::EventType;
pub use generated::mvccpb::{Event, KeyValue};
pub use generated::v3lockpb::{LockResponse, UnlockResponse};
pub use keep_alive::{KeepAliveResponses, KeepAliveSender};
pub use options::{GetOptions, PutOptions};
pub use watch::{WatchOptions, WatchResponses, WatchSender, WatchStream};

#[cfg(feature = "tls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
pub use tonic::transport::{Certificate, ClientTlsConfig as TlsOptions, Identity};
