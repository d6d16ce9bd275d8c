//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use std::path::Path;

use leasehold_core::Now;
use leasehold_core::fuzzing::{Target, store_url, text};

use crate::backend::escape::{escape, unescape};
use crate::backend::record::Due;
use crate::backend::stored_record::StoredRecord;
use crate::backend::waiter_queue::{WaiterRecord, stamp};
use crate::connect;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("file-name", name), ("file-record", record), ("file-url", url)];

fn url(input: &[u8]) {
    let _ = store_url(input).map(|url| connect::parse(&url));
}

/// The name of a file.
fn name(input: &[u8]) {
    let text = text(input);
    let _ = stamp(&text);
    if let Some(name) = unescape(&text) {
        assert_eq!(escape(&name), text, "a name and its file");
    }
}

/// The content of a file.
fn record(input: &[u8]) {
    let _ = WaiterRecord::read(input).and_then(WaiterRecord::waiter);
    let now = Now { steady_ns: 0, wall_ns: 1 << 60 };
    match StoredRecord::of_bytes(Path::new("a.json"), input) {
        Ok(StoredRecord::Lock(record)) => {
            let _ = (record.holder(), record.token(), Due::after(Some(&record)).has(7));
        }
        Ok(StoredRecord::Semaphore(mut record)) => {
            let limit = record.limit();
            let _ = (record.top(), limit.map(|limit| record.set_limit(limit)));
        }
        Ok(StoredRecord::Latch(record)) => drop(record.value(now).map(<[u8]>::to_vec)),
        Err(_) => {}
    }
}
