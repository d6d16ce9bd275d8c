//! Nodes on one manual clock, and how to inject their faults.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_conformance::manual_time::{connect, ms, others_run, pass_by};
use leasehold_core::backend::Backend;
use leasehold_core::clock::ManualClock;
use leasehold_core::{Client, Error};
use leasehold_quorum::{
    Founding, MAX_TTL, MemoryNode, NodeFault, Outlook, QuorumBackend, QuorumNode, found,
};

/// Nodes, and the clock of all.
pub(super) struct Quorum {
    pub(super) hand: ManualClock,
    pub(super) nodes: Vec<MemoryNode>,
}

impl Quorum {
    pub(super) fn empty(size: usize) -> Self {
        let hand = ManualClock::new();
        let node = |number| MemoryNode::with_clock(format!("n{number}"), hand.clock());
        Self { nodes: (0..size).map(node).collect(), hand }
    }

    pub(super) async fn founded(size: usize) -> Self {
        let quorum = Self::empty(size);
        quorum.found(Founding::Vouched).await.expect("all nodes answer");
        quorum
    }

    pub(super) async fn found(&self, founding: Founding) -> Result<Outlook, Error> {
        let clock = self.hand.clock();
        let founding = found(self.connected(), MAX_TTL, founding, clock, |_| {});
        self.until(ms(200), founding).await.map(|members| members.outlook)
    }

    pub(super) fn connected(&self) -> Vec<Arc<dyn QuorumNode>> {
        self.nodes.iter().map(MemoryNode::connect).collect()
    }

    pub(super) async fn backend(&self) -> Result<QuorumBackend, Error> {
        QuorumBackend::builder(self.connected()).clock(self.hand.clock()).connect().await
    }

    pub(super) async fn client(&self) -> Client {
        let backend: Arc<dyn Backend> =
            Arc::new(self.backend().await.expect("enough nodes answer"));
        connect(&self.hand, backend)
    }

    pub(super) fn fault(&self, nodes: impl IntoIterator<Item = usize>, fault: NodeFault) {
        nodes.into_iter().for_each(|node| self.nodes[node].set_fault(fault));
    }

    pub(super) fn restart_empty(&self, node: usize) {
        self.nodes[node].forget();
        self.nodes[node].restart();
    }

    pub(super) async fn pass(&self, time: Duration) {
        self.pass_by(ms(100), time).await;
    }

    pub(super) async fn pass_by(&self, step: Duration, time: Duration) {
        pass_by(&self.hand, step, time).await;
    }

    /// Runs until it is done, in steps of this length, two minutes at most.
    pub(super) async fn until<T>(&self, step: Duration, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        for _ in 0..120_000 / step.as_millis() {
            others_run().await;
            if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
                return done;
            }
            self.hand.advance(step);
        }
        panic!("not within two minutes");
    }

    pub(super) fn leases(&self) -> usize {
        self.nodes.iter().map(MemoryNode::leases).sum()
    }
}
