//! Transactions: how they are built, and how their answers are read.

use crate::generated::etcdserverpb::DeleteRangeRequest;
use crate::generated::etcdserverpb::compare::{CompareTarget, TargetUnion};
use crate::generated::etcdserverpb::request_op::Request;
use crate::options::{GetOptions, PutOptions};
use crate::{Compare, CompareOp, OpResponse, PutResponse, RangeResponse, Txn, TxnOp, TxnResponse};

impl Txn {
    /// Creates a transaction without conditions and operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the conditions. Without any, they hold.
    #[must_use]
    pub fn when(mut self, all: impl Into<Vec<Compare>>) -> Self {
        self.compare = all.into();
        self
    }

    /// Sets the operations that are executed if all conditions hold.
    #[must_use]
    pub fn and_then(mut self, operations: impl Into<Vec<TxnOp>>) -> Self {
        self.success = operations.into();
        self
    }

    /// Sets the operations that are executed if a condition does not hold.
    #[must_use]
    pub fn or_else(mut self, operations: impl Into<Vec<TxnOp>>) -> Self {
        self.failure = operations.into();
        self
    }
}

impl Compare {
    fn of(key: impl Into<Vec<u8>>, op: CompareOp, target: CompareTarget, to: TargetUnion) -> Self {
        Self {
            result: op.into(),
            target: target.into(),
            key: key.into(),
            range_end: Vec::new(),
            target_union: Some(to),
        }
    }

    /// Compares how often the key was put since it was created; 0 if it does not exist.
    #[must_use]
    pub fn version(key: impl Into<Vec<u8>>, op: CompareOp, version: i64) -> Self {
        Self::of(key, op, CompareTarget::Version, TargetUnion::Version(version))
    }

    /// Compares the revision at which the key was created; 0 if it does not exist.
    #[must_use]
    pub fn create_revision(key: impl Into<Vec<u8>>, op: CompareOp, revision: i64) -> Self {
        Self::of(key, op, CompareTarget::Create, TargetUnion::CreateRevision(revision))
    }

    /// Compares the revision at which the key was last put; 0 if it does not exist.
    #[must_use]
    pub fn mod_revision(key: impl Into<Vec<u8>>, op: CompareOp, revision: i64) -> Self {
        Self::of(key, op, CompareTarget::Mod, TargetUnion::ModRevision(revision))
    }

    /// Compares the value. A key that does not exist has none, and the condition does not hold.
    #[must_use]
    pub fn value(key: impl Into<Vec<u8>>, op: CompareOp, value: impl Into<Vec<u8>>) -> Self {
        Self::of(key, op, CompareTarget::Value, TargetUnion::Value(value.into()))
    }

    /// Compares the lease to which the key is attached; 0 without one.
    #[must_use]
    pub fn lease(key: impl Into<Vec<u8>>, op: CompareOp, lease: i64) -> Self {
        Self::of(key, op, CompareTarget::Lease, TargetUnion::Lease(lease))
    }

    /// Compares all keys from the key to before this one.
    #[must_use]
    pub fn with_range(mut self, end: impl Into<Vec<u8>>) -> Self {
        self.range_end = end.into();
        self
    }
}

impl TxnOp {
    /// Reads a key, or the keys that the options name.
    #[must_use]
    pub fn get(key: impl Into<Vec<u8>>, options: Option<GetOptions>) -> Self {
        Request::RequestRange(options.unwrap_or_default().request(key.into())).into()
    }

    /// Lets a read be answered by what the member has, without asking whether that is the latest. A transaction whose
    /// operations are all like this waits for no other member, and for no write that is under way.
    #[must_use]
    pub fn serializable(mut self) -> Self {
        if let Some(Request::RequestRange(range)) = &mut self.request {
            range.serializable = true;
        }
        self
    }

    /// Writes a key.
    #[must_use]
    pub fn put(
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        options: Option<PutOptions>,
    ) -> Self {
        let request = options.unwrap_or_default().request(key.into(), value.into());
        Request::RequestPut(request).into()
    }

    /// Deletes a key.
    #[must_use]
    pub fn delete(key: impl Into<Vec<u8>>) -> Self {
        let request = DeleteRangeRequest { key: key.into(), ..Default::default() };
        Request::RequestDeleteRange(request).into()
    }

    /// Executes another transaction.
    #[must_use]
    pub fn txn(txn: Txn) -> Self {
        Request::RequestTxn(txn).into()
    }
}

impl From<Request> for TxnOp {
    fn from(request: Request) -> Self {
        Self { request: Some(request) }
    }
}

impl TxnResponse {
    fn answer(&self, op: usize) -> Option<&OpResponse> {
        self.responses.get(op)?.response.as_ref()
    }

    /// Returns the answer of an operation, by its number; `None` if that was no read.
    #[must_use]
    pub fn range(&self, op: usize) -> Option<&RangeResponse> {
        match self.answer(op)? {
            OpResponse::ResponseRange(found) => Some(found),
            _ => None,
        }
    }

    /// Returns the answer of an operation, by its number; `None` if that was no write.
    #[must_use]
    pub fn put(&self, op: usize) -> Option<&PutResponse> {
        match self.answer(op)? {
            OpResponse::ResponsePut(put) => Some(put),
            _ => None,
        }
    }

    /// Returns the answer of an operation, by its number; `None` if that was no transaction.
    #[must_use]
    pub fn txn(&self, op: usize) -> Option<&TxnResponse> {
        match self.answer(op)? {
            OpResponse::ResponseTxn(inner) => Some(inner),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_alone_can_be_serializable() {
        let is = |op: TxnOp| match op.serializable().request {
            Some(Request::RequestRange(range)) => range.serializable,
            _ => false,
        };
        assert!(is(TxnOp::get("a", None)));
        assert!(!is(TxnOp::put("a", "", None)) && !is(TxnOp::delete("a")));
    }
}
