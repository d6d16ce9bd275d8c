//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, EventSink, Origin, ReleaseRequest};
use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::fuzzing::{Target, store_url, text};
use leasehold_core::proto::quorum::Op;
use leasehold_core::proto::semaphore::Demand;
use leasehold_core::{AttemptId, Name, Now};
use leasehold_quorum::Step;
use redis::Value;

use crate::address::Address;
use crate::doctor::{Part, health};
use crate::key::Keys;
use crate::node::{fitness, messages};
use crate::push::Pushes;
use crate::reply;
use crate::request::{Operation, Request};
use crate::scan::Scan;
use crate::source::sentinel;
use crate::status;
use crate::supervisor::Listener;
use crate::topology::Store;
use crate::topology::nodes::Owners;
use crate::waiters::Waiters;
use crate::watched::WatchedLocks;
use crate::wire;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("redis-info", info),
    ("redis-line", line),
    ("redis-nodes", nodes),
    ("redis-reply", resp),
    ("redis-url", url),
];

const LIMIT: Duration = Duration::from_secs(30);

fn attempt() -> AttemptId {
    AttemptId::from_bytes([7; 16])
}

fn request(name: &Name) -> AcquireRequest {
    AcquireRequest::new(name.clone(), attempt(), LIMIT).with_wait(true)
}

fn url(input: &[u8]) {
    let Some(url) = store_url(input) else { return };
    let _ = (Address::parse(url.clone()), Address::parse_all(url.clone(), &[]));
    let _ = Store::parse(url);
}

/// What scripts answer, and what they push.
fn line(input: &[u8]) {
    let (text, keys) = (text(input), Keys::new("leasehold"));
    let Ok(name) = Name::new("a") else { return };
    let mut acquire = request(&name);
    let release = ReleaseRequest::new(name.clone(), attempt()).with_then(acquire.clone());
    let mut requests = vec![
        Operation::Acquire(acquire.clone()),
        Operation::Release(ReleaseRequest::new(name.clone(), attempt()), None),
        Operation::Release(release, None),
    ];
    if let Ok(demand) = Demand::new(2, 3) {
        acquire = acquire.with_demand(demand);
        requests.push(Operation::Acquire(acquire));
    }
    for what in requests {
        let request = Request { what, limit: LIMIT };
        let lines = reply::lines(&text, text.split('\n').count());
        for line in lines.into_iter().flatten() {
            let _ = reply::reply(&request, line, &keys);
        }
    }
    let _ = (reply::converted(&text, "a"), reply::permit::limit_in(&text));
    let _ = (wire::reply::answer(&text, "a", LIMIT), wire::reply::forced(&text));
    let _ = wire::reply::verdict(&text);
    let _ =
        (wire::mark::found(&text, &name, "set-nx"), wire::mark::covered(&text, &name, "set-nx"));
    let op = Op::Release { attempt: attempt() };
    let step = Step::new(name, op, Origin::new("host", 1, None));
    let _ = (messages::replies(&text, &[&step]), messages::record(&text));
    let (events, _received) = EventSink::channel();
    let (waiters, watched, clock) = (Waiters::default(), WatchedLocks::default(), Clock::system());
    Pushes { waiters, watched, keys, clock, events }.message(input);
}

/// What a server sends, as bytes of its protocol: records, lists and reports.
fn resp(input: &[u8]) {
    let Ok(value) = redis::parse_redis_value(input) else { return };
    let (Ok(name), keys) = (Name::new("a"), Keys::new("leasehold")) else { return };
    let _ = (messages::lease("a", &value, 1_000_000), wire::reply::status(&name, "a", &value));
    if let Value::Array(answers) = &value {
        let _ = status::status(name, "a", answers);
        WatchedLocks::default().handle_report(answers);
    }
    if let Ok(fields) = redis::from_redis_value::<HashMap<String, String>>(value.clone()) {
        let _ = sentinel::Said::of(&fields);
    }
    let mut scan = Scan::new(&keys, "");
    if scan.take(value).is_ok() {
        let _ = (scan.next().is_some(), scan.names());
    }
}

/// What `INFO` says.
fn info(input: &[u8]) {
    let (text, now) = (text(input), Now { steady_ns: 0, wall_ns: 1 << 60 });
    let _ = fitness::Verdict::of(&text, now, now).at("here");
    for part in [Part::Single, Part::Shared, Part::Watched, Part::Cluster, Part::Node] {
        health::judge(&mut Diagnosis::at("here"), &text, None, part);
        let settings = HashMap::from([("save".to_owned(), text.to_string())]);
        health::judge(&mut Diagnosis::at("here"), &text, Some(&settings), part);
    }
}

/// What `CLUSTER NODES` says.
fn nodes(input: &[u8]) {
    let text = text(input);
    let half = text.len() / 2;
    let half = (half..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let (one, other) = text.split_at(half);
    let answers = [one, other].map(|text| ("asked".to_owned(), text.to_owned()));
    let by_name = input.first().is_some_and(|first| first % 2 == 0);
    let Ok(mut owners) = Owners::read(&answers, by_name) else { return };
    owners.give(16_383, ("moved".to_owned(), 1));
    let _ = (owners.check(), owners.serving().count(), owners.places());
}
