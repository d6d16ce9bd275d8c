//! The metric of a quorum.

use std::sync::Arc;

use leasehold_conformance::manual_time::secs;
use leasehold_core::backend::Origin;
use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::{Op, Task, TaskReply};
use leasehold_core::{AttemptId, Client, ClientId, Name, Token, telemetry};
use leasehold_quorum::{Founding, MAX_TTL, MemoryNode, QuorumBackend, Step, found};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

#[test]
fn a_quorum_counts_the_rounds_that_its_grants_needed() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let nodes: Vec<MemoryNode> = ["a", "b", "c"].map(MemoryNode::new).into();
            let all = || nodes.iter().map(MemoryNode::connect).collect::<Vec<_>>();
            let first = Founding::Vouched;
            found(all(), MAX_TTL, first, Clock::system(), |_| ()).await.unwrap();
            let backend = QuorumBackend::builder(all()).connect().await.unwrap();
            let client = Client::new(Arc::new(backend)).unwrap();
            client.lock("easy").acquire().await.unwrap().release().await.unwrap();
            // Two of three nodes have higher tokens: a majority must agree on one.
            for (ahead_s, node) in [60, 120].into_iter().zip(all()) {
                let TaskReply::Look(look) = node.task(Task::Look).await else { unreachable!() };
                let attempt = AttemptId::new(ClientId::from_bits(1), 1, 1);
                let now_us = Clock::system().now().unix_us();
                let proposal = Token::new(now_us + ahead_s * 1_000_000).unwrap();
                for op in
                    [Op::Acquire { attempt, ttl: secs(30), proposal }, Op::Release { attempt }]
                {
                    let name = Name::new("split").unwrap();
                    let origin = Arc::new(Origin::new("", 0, None));
                    let step = Step::new(name, op, origin);
                    node.steps(look.process, vec![step], secs(1)).await;
                }
            }
            client.lock("split").acquire().await.unwrap().release().await.unwrap();
        });
    });
    let mut grants: Vec<(String, DebugValue)> = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if key.key().name() == telemetry::QUORUM_GRANTS {
            let rounds = key.key().labels().find(|label| label.key() == "rounds").unwrap();
            grants.push((rounds.value().to_owned(), value));
        }
    }
    grants.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = ["1", "2"].map(|rounds| (rounds.to_owned(), DebugValue::Counter(1)));
    assert_eq!(grants, expected);
}
