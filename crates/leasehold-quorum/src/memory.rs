//! Nodes in the memory of this process, for tests. They can restart, lose data, and be slow or
//! silent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_proto::quorum::{Node, NodeReply, Op, ProcessId, Refusal, Task, TaskReply};
use leasehold_proto::{AttemptId, ClientId};

use super::node::{Fitness, NodeEvent, NodeLease, NodeSink, QuorumNode, Step};
use leasehold_core::backend::{BoxFuture, Origin};
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Name, Result};

/// An independent node: the machine of `leasehold-proto` as it is. It is cheap to clone, and clones
/// are the same node.
#[derive(Clone, Debug)]
pub struct MemoryNode(Arc<Inner>);

/// What is wrong with a [`MemoryNode`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeFault {
    /// Nothing.
    #[default]
    None,
    /// No server listens: calls return at once, and nothing was done.
    Stopped,
    /// It is reachable, and refuses every request (it loads data, or is full).
    Unfit,
    /// Calls never arrive, and time out.
    BlackHole,
    /// Calls are executed, and their answers are lost.
    Mute,
    /// Calls are executed after this long, even if no caller waits.
    Slow(Duration),
    /// Each call is executed after a random time, up to this.
    Jitters(Duration),
    /// Each call is executed again together with the next call.
    Repeats,
}

#[derive(Debug)]
struct Inner {
    place: String,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    node: Node<Name>,
    fault: NodeFault,
    /// The last holder of each lock, and when it was granted (Unix, in milliseconds).
    holders: BTreeMap<Name, (AttemptId, Arc<Origin>, u64)>,
    waiters: HashMap<Name, HashSet<ClientId>>,
    sinks: HashMap<ClientId, NodeSink>,
    steps: u64,
    /// The previous call, for a node that repeats calls.
    before: Vec<(ProcessId, Name, Op)>,
}

/// The connection of one client to a node.
#[derive(Debug)]
struct Connection {
    node: MemoryNode,
    client: OnceLock<ClientId>,
}

impl MemoryNode {
    /// Creates a node without data that uses the system clock; `place` is its name in messages.
    pub fn new(place: impl Into<String>) -> Self {
        Self::with_clock(place, Clock::system())
    }

    /// Creates a node without data whose leases end by this clock.
    pub fn with_clock(place: impl Into<String>, clock: Clock) -> Self {
        let state = State {
            node: Node::new(random_process()),
            fault: NodeFault::None,
            holders: BTreeMap::new(),
            waiters: HashMap::new(),
            sinks: HashMap::new(),
            steps: 0,
            before: Vec::new(),
        };
        Self(Arc::new(Inner { place: place.into(), clock, state: Mutex::new(state) }))
    }

    /// Creates a connection, for one client.
    pub fn connect(&self) -> Arc<dyn QuorumNode> {
        Arc::new(Connection { node: self.clone(), client: OnceLock::new() })
    }

    /// Sets what is wrong with the node from now on.
    pub fn set_fault(&self, fault: NodeFault) {
        self.state().fault = fault;
    }

    /// Restarts the node as another process with the same data; connections are re-established.
    pub fn restart(&self) {
        let mut state = self.state();
        state.node.restart(random_process());
        state.waiters.clear();
        drop(state);
        self.reset();
    }

    /// Re-establishes the connections, and does nothing else.
    pub fn reset(&self) {
        for sink in self.state().sinks.values() {
            sink.send(NodeEvent::Reset);
        }
    }

    /// Drops all data; no client is notified.
    pub fn forget(&self) {
        let mut state = self.state();
        state.node.forget();
        state.holders.clear();
    }

    /// Returns how many steps were sent to it, with any result.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Returns how many locks are held here now.
    pub fn leases(&self) -> usize {
        let (now, state) = (self.0.clock.now(), self.state());
        state.holders.keys().filter(|name| state.node.lease(now, name).is_some()).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(
        &self,
        client: Option<ClientId>,
        process: ProcessId,
        steps: &[Step],
    ) -> Vec<NodeReply> {
        let now = self.0.clock.now();
        let state = &mut *self.state();
        if state.fault == NodeFault::Repeats {
            for (process, name, op) in std::mem::take(&mut state.before) {
                state.node.handle(now, process, &name, op);
            }
            state.before = steps.iter().map(|step| (process, step.name.clone(), step.op)).collect();
        }
        let one = |step: &Step| {
            let reply = state.node.handle(now, process, &step.name, step.op);
            match (reply, step.op) {
                (NodeReply::Granted(_), Op::Acquire { attempt, .. })
                | (NodeReply::Healed, Op::Renew { attempt, .. }) => {
                    let holder = (attempt, step.origin.clone(), now.unix_ms());
                    state.holders.insert(step.name.clone(), holder);
                }
                (NodeReply::Busy { .. }, _) => {
                    if let Some(client) = client.filter(|_| step.wait) {
                        state.waiters.entry(step.name.clone()).or_default().insert(client);
                    }
                }
                (NodeReply::Released, _) => {
                    let free = state.node.lease(now, &step.name).is_none();
                    let waiters = free.then(|| state.waiters.remove(&step.name)).flatten();
                    let waiters = waiters.unwrap_or_default();
                    let mut told = false;
                    for waiter in &waiters {
                        if let Some(sink) = state.sinks.get(waiter) {
                            told |= sink.send(NodeEvent::Freed(step.name.clone()));
                        }
                    }
                    // As the node's script does it, but the note lasts until the next release.
                    if let Some(own) = client.filter(|own| told && !waiters.contains(own)) {
                        state.waiters.entry(step.name.clone()).or_default().insert(own);
                        return NodeReply::Notified;
                    }
                }
                _ => {}
            }
            reply
        };
        steps.iter().map(one).collect()
    }

    fn task(&self, task: Task) -> TaskReply {
        let node = &mut self.state().node;
        let refused = TaskReply::Refused;
        match task {
            Task::Look => TaskReply::Look(node.look()),
            Task::Survey => TaskReply::Survey(node.survey()),
            Task::Propose { process, nonce, max_ttl, first } => match first {
                true => node.propose_first(process, nonce, max_ttl),
                false => node.propose(process, nonce, max_ttl),
            }
            .map_or_else(refused, |marker| TaskReply::Marker(Some(marker))),
            Task::High { process } => node
                .high(process)
                .map_or_else(refused, |(high, max_ttl)| TaskReply::High { high, max_ttl }),
            Task::Admit { process, nonce, floor } => {
                let floor = floor.unwrap_or_else(|| self.0.clock.now().unix_us());
                node.admit(process, nonce, floor).map_or_else(refused, TaskReply::Marker)
            }
        }
    }

    /// Handles a call under the fault; returns `None` if no answer comes.
    async fn under_fault<T: Send + 'static>(
        &self,
        limit: Duration,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let (fault, clock) = (self.state().fault, &self.0.clock);
        match fault {
            NodeFault::None | NodeFault::Repeats | NodeFault::Unfit => Some(call(self)),
            NodeFault::Stopped => None,
            NodeFault::BlackHole => {
                clock.sleep(limit).await;
                None
            }
            NodeFault::Mute => {
                call(self);
                clock.sleep(limit).await;
                None
            }
            NodeFault::Slow(_) | NodeFault::Jitters(_) => {
                let node = self.clone();
                let time = match fault {
                    NodeFault::Jitters(most) => most.mul_f64(fastrand::f64()),
                    NodeFault::Slow(time) => time,
                    _ => Duration::ZERO,
                };
                let calling = tokio::spawn(async move {
                    node.0.clock.sleep(time).await;
                    call(&node)
                });
                let until = leasehold_core::Deadline::after(clock.now(), limit);
                clock.within(Some(until), calling).await.and_then(std::result::Result::ok)
            }
        }
    }
}

/// How long to wait for tasks and questions.
const PATIENCE: Duration = Duration::from_secs(1);

impl QuorumNode for Connection {
    fn place(&self) -> String {
        self.node.0.place.clone()
    }

    fn attach(&self, client: ClientId, events: NodeSink) {
        if self.client.set(client).is_ok() {
            self.node.state().sinks.insert(client, events);
        }
    }

    fn steps(
        &self,
        process: ProcessId,
        steps: Vec<Step>,
        limit: Duration,
    ) -> BoxFuture<'_, Vec<NodeReply>> {
        let client = self.client.get().copied();
        let fault = {
            let mut state = self.node.state();
            state.steps += steps.len() as u64;
            state.fault
        };
        match fault {
            NodeFault::None | NodeFault::Repeats => {
                let replies = self.node.carry_out(client, process, &steps);
                Box::pin(std::future::ready(replies))
            }
            NodeFault::Stopped | NodeFault::Unfit => {
                let replies = vec![NodeReply::Refused(Refusal::Unfit); steps.len()];
                Box::pin(std::future::ready(replies))
            }
            _ => Box::pin(async move {
                let count = steps.len();
                let call = move |node: &MemoryNode| node.carry_out(client, process, &steps);
                let replies = self.node.under_fault(limit, call).await;
                replies.unwrap_or_else(|| vec![NodeReply::Unknown; count])
            }),
        }
    }

    fn task(&self, task: Task) -> BoxFuture<'_, TaskReply> {
        Box::pin(async move {
            let reply = self.node.under_fault(PATIENCE, move |node| node.task(task)).await;
            reply.unwrap_or(TaskReply::Unknown)
        })
    }

    fn leases<'a>(
        &'a self,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<Vec<Result<Option<NodeLease>>>>> {
        let names = names.to_vec();
        Box::pin(async move {
            let look = move |node: &MemoryNode| {
                let (now, state) = (node.0.clock.now(), node.state());
                let lease = |name: &Name| {
                    let (last, origin, since_unix_ms) = state.holders.get(name)?;
                    let lease = state.node.lease(now, name);
                    Some(NodeLease {
                        holder: origin.holder(lease.map_or(*last, |lease| lease.attempt)),
                        counter: state.node.counter(now, name)?,
                        since_unix_ms: *since_unix_ms,
                        remaining: lease.map_or(Duration::ZERO, |lease| lease.remaining),
                    })
                };
                names.iter().map(|name| Ok(lease(name))).collect()
            };
            self.node.under_fault(PATIENCE, look).await.ok_or_else(no_answer)
        })
    }

    fn names<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Name>>> {
        let prefix = prefix.to_owned();
        Box::pin(async move {
            let look = move |node: &MemoryNode| {
                let state = node.state();
                let named = state.holders.keys().filter(|name| name.as_str().starts_with(&prefix));
                named.take(limit).cloned().collect()
            };
            self.node.under_fault(PATIENCE, look).await.ok_or_else(no_answer)
        })
    }

    fn trouble(&self) -> Option<String> {
        (self.node.state().fault == NodeFault::Stopped).then(|| "is stopped".to_owned())
    }

    fn fitness(&self) -> BoxFuture<'_, Fitness> {
        Box::pin(std::future::ready(Fitness::default()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(client) = self.client.get() {
            self.node.state().sinks.remove(client);
        }
    }
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Unavailable, "does not answer")
}

fn random_process() -> ProcessId {
    ProcessId::from_bytes(std::array::from_fn(|_| fastrand::u8(..)))
}
