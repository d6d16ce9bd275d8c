//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use leasehold_core::fuzzing::{Target, store_url};
use leasehold_etcd_api::KeyValue;

use crate::address::Address;
use crate::entry::{Entry, read_named};
use crate::key::Keys;
use crate::limit::StoredLimit;
use crate::record::Record;
use crate::transaction::token;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("etcd-url", url), ("etcd-value", value)];

fn url(input: &[u8]) {
    let _ = store_url(input).map(Address::parse);
}

/// A key and its value, with a carriage return between them.
fn value(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == b'\r').unwrap_or(input.len());
    let (key, value) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    let keys = Keys::new("leasehold");
    for revision in [0, -1, 7, i64::MAX] {
        let kv = KeyValue {
            key: key.to_vec(),
            value: value.to_vec(),
            create_revision: revision,
            mod_revision: revision,
            ..KeyValue::default()
        };
        let _ = (keys.read(&kv.key), token(kv.create_revision));
        let _ = (Entry::read(&keys, &kv), StoredLimit::read(&kv), read_named(&kv.value));
        if let Ok(record) = Record::read(Some(&kv)) {
            let _ = record.token_of(revision);
        }
    }
}
