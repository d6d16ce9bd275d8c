//! Transactions that several operations send, and how their replies are read.

use leasehold_core::{Error, ErrorKind, Result, Token};
use leasehold_etcd_api::{
    Compare, CompareOp, GetOptions, KeyValue, SortOrder, SortTarget, Txn, TxnOp, TxnResponse,
};

use crate::key::Range;

/// Returns the transaction that deletes a key if its create revision is still this one.
pub(crate) fn delete(key: &[u8], created: u64) -> Txn {
    let created = i64::try_from(created).unwrap_or(i64::MAX);
    Txn::new()
        .when([Compare::create_revision(key, CompareOp::Equal, created)])
        .and_then([TxnOp::delete(key)])
}

/// Reads a key without its value.
pub(crate) fn get(key: &[u8]) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

/// Reads one key of a range, without its value.
pub(crate) fn any((first, end): Range) -> TxnOp {
    TxnOp::get(first, Some(GetOptions::new().with_range(end).with_keys_only().with_limit(1)))
}

/// Reads the first keys of a range, in the order of their creation.
pub(crate) fn first((first, end): Range, many: i64) -> TxnOp {
    let options = GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Ascend)
        .with_limit(many);
    TxnOp::get(first, Some(options))
}

/// Compares that no key of a range exists.
pub(crate) fn none((first, end): Range) -> Compare {
    Compare::create_revision(first, CompareOp::Equal, 0).with_range(end)
}

/// Returns the token of a revision.
pub(crate) fn token(revision: i64) -> Result<Token> {
    let token = u64::try_from(revision).ok().and_then(Token::new);
    token.ok_or_else(|| {
        Error::new(
            ErrorKind::Foreign,
            format!("the server's revision {revision} is too large for a token: the largest token is 2^53-1"),
        )
    })
}

pub(crate) fn revision(answer: &TxnResponse) -> i64 {
    answer.header.map_or(0, |header| header.revision)
}

pub(crate) fn term(answer: &TxnResponse) -> u64 {
    answer.header.map_or(0, |header| header.raft_term)
}

/// Returns the create revision of a found key.
pub(crate) fn created_at(answer: &TxnResponse, op: usize, place: usize) -> Option<i64> {
    key_at(answer, op, place).map(|(_, created)| created)
}

/// Returns the key that an operation found, and its create revision.
pub(crate) fn key_at(answer: &TxnResponse, op: usize, place: usize) -> Option<(Vec<u8>, i64)> {
    let kv = kv_at(answer, op, place)?;
    Some((kv.key.clone(), kv.create_revision))
}

pub(crate) fn kv_at(answer: &TxnResponse, op: usize, place: usize) -> Option<KeyValue> {
    answer.range(op)?.kvs.get(place).cloned()
}

/// Returns the keys that an operation found.
pub(crate) fn kvs(answer: Option<&TxnResponse>, op: usize) -> Vec<KeyValue> {
    answer.and_then(|answer| answer.range(op)).map(|found| found.kvs.clone()).unwrap_or_default()
}

pub(crate) fn count(answer: &TxnResponse, op: usize) -> Option<u64> {
    u64::try_from(answer.range(op)?.count).ok()
}
