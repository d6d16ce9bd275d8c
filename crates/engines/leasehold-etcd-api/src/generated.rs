//! The code that prost and tonic generate from the files in `proto`; `cargo xtask etcd-api` writes it again.

#![allow(clippy::all, missing_docs, unreachable_pub, reason = "it is generated")]

#[rustfmt::skip]
pub mod etcdserverpb;
#[rustfmt::skip]
pub mod mvccpb;
#[rustfmt::skip]
pub mod v3lockpb;
