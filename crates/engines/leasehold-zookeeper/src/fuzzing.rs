//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use leasehold_core::fuzzing::{Target, store_url, text};
use leasehold_core::proto::semaphore::{Demand, Limit};
use zookeeper_client::Stat;

use crate::address::Address;
use crate::doctor::server::{Said, members, server};
use crate::format::Format;
use crate::latch_value::Value;
use crate::node_data;
use crate::path::{self, QueueNode};
use crate::record::{Places, Record};
use crate::semaphore_record::{Seat, SemaphoreRecord};

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("zookeeper-data", data),
    ("zookeeper-nodes", nodes),
    ("zookeeper-url", url),
    ("zookeeper-words", words),
];

/// How many nodes of a list are looked at one by one.
const LOOKED_AT: usize = 16;

fn url(input: &[u8]) {
    let _ = store_url(input).map(Address::parse);
}

/// The names of the nodes of a queue, one a line.
fn nodes(input: &[u8]) {
    let text = text(input);
    let nodes: Vec<String> = text.lines().map(str::to_owned).collect();
    for node in nodes.iter().take(LOOKED_AT) {
        let _ = (path::unescape(node), QueueNode::parse(node).map(|node| node.slots()));
    }
    for format in [Format::Own, Format::Curator, Format::Kazoo] {
        let Ok(ordered) = format.order(nodes.clone()) else { continue };
        for (place, node) in ordered.nodes.iter().enumerate().take(LOOKED_AT) {
            let _ = format.attempt(node);
            let _ = format.before(&ordered.nodes, &ordered.strays, place);
        }
        let _ = Seat::all(&ordered.nodes);
    }
}

/// The data of a node.
fn data(input: &[u8]) {
    let _ = node_data::read(input, None);
    if let Some(value) = Value::read(input) {
        let _ = (value.remaining(i64::MAX, i64::MIN), value.remaining(i64::MIN, i64::MAX));
    }
    for (version, czxid) in [(0, 7), (1, 7), (1, i64::MAX)] {
        let Ok(Some(record)) = Record::read(input, &stat(version, czxid), "/a") else { continue };
        let _ = (record.is_for(i32::MIN), record.phase(Places(i32::MAX)));
    }
    let Ok(mut record) = SemaphoreRecord::read(input, "/a") else { return };
    let again = SemaphoreRecord::read(&record.written(), "/a");
    assert!(again.is_ok_and(|again| again == record), "a record is read back as it was");
    let seats = [(1, 1), (i32::MAX, u32::MAX), (i32::MIN, 0), (2, 7)];
    let seats = seats.map(|(number, slots)| Seat { number, slots });
    for floor in [0, -1, i64::MAX] {
        let _ = (record.behind(&seats, 2), record.serve(&seats, floor));
    }
    if let (Ok(demand), Ok(limit)) = (Demand::new(2, 3), Limit::new(3)) {
        let _ = record.check(demand, true);
        let _ = record.set_limit(record.limit().version, limit);
    }
}

/// What a server answers to four-letter words.
fn words(input: &[u8]) {
    let text = text(input);
    let said = Said { place: "here".into(), srvr: Some(text.to_string()), conf: String::new() };
    let _ = (server(&said), members(&text));
}

fn stat(version: i32, czxid: i64) -> Stat {
    Stat {
        czxid,
        mzxid: 0,
        pzxid: 0,
        ctime: 0,
        mtime: 0,
        version,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        num_children: 0,
    }
}
