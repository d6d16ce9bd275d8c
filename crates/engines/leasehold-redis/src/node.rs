//! One Redis server as a node of a quorum.

mod connection;
pub(crate) mod fitness;
pub(crate) mod messages;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::backend::BoxFuture;
use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::{
    Look, Marker, NodeReply, Op, ProcessId, Refusal, Survey, Task, TaskReply,
};
use leasehold_core::{ClientId, Deadline, Name, Result};
use leasehold_quorum::{Fitness, NodeEvent, NodeLease, NodeSink, QuorumNode, Step};
use redis::{Cmd, Value};

use crate::address::Address;
use crate::error::{foreign, is_no_script, strange};
use crate::key::Keys;
use crate::push;
use crate::scan::Scan;
use crate::script::{NodeScripts, Script};
use crate::supervisor::{ConnectionState, Listener, Live, Order};
use connection::{Failure, NodeConnection};
use fitness::Verdict;

/// How long a task may take; its caller waits for one second.
const TASK_LIMIT: Duration = Duration::from_millis(900);
/// How long a question for display may take.
const LIMIT: Duration = Duration::from_secs(5);
/// The message for a lock key with an unknown value.
const FOREIGN: &str = "refused: a lock key there has another value, or a newer record";
/// How many records one script reads.
const READ: usize = 250;

/// An independent Redis server, with a connection that is made when possible.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of engines.
#[derive(Debug)]
pub struct RedisNode {
    wire: NodeConnection,
    keys: Keys,
    /// The key of its marker and its high-water mark.
    key: String,
    place: String,
    retain: Duration,
    /// The scripts of the process that answered last.
    scripts: Mutex<Option<Arc<NodeScripts>>>,
    /// The script that reads records; any process may run it.
    leases: Script,
    /// Why the server refused the last failed request, as the rest of a sentence about it.
    refused: Mutex<Option<String>>,
}

impl RedisNode {
    /// Begins to connect.
    pub(crate) fn start(address: Address, clock: Clock) -> Self {
        let keys = Keys::new(&address.prefix);
        let (key, place, retain) = (keys.node(), address.place, address.retain);
        let wire = NodeConnection::start(address.client, clock);
        let (scripts, refused) = (Mutex::default(), Mutex::default());
        Self { wire, keys, key, place, retain, scripts, leases: Script::node_leases(), refused }
    }

    fn scripts(&self, process: ProcessId) -> Arc<NodeScripts> {
        let mut known = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(scripts) if scripts.process == process => scripts.clone(),
            _ => known.insert(Arc::new(NodeScripts::new(process, self.retain))).clone(),
        }
    }

    /// Calls a script of one process. Another process does not know the script, and does not get
    /// it: the admission must look at that process first. The same process may have dropped its
    /// scripts.
    async fn call(
        &self,
        live: &Live,
        scripts: &NodeScripts,
        command: Cmd,
        until: Deadline,
    ) -> Result<Value, Failure> {
        let command = Arc::new(command);
        match self.wire.send(live, command.clone(), until).await {
            Err(Failure::Answer(error)) if is_no_script(&error) => {
                if self.process(live, until).await? != scripts.process {
                    return Err(Failure::Stranger);
                }
                self.load(live, &scripts.all(), until).await?;
                self.wire.send(live, command, until).await
            }
            answer => answer,
        }
    }

    /// Returns which process answers on this connection.
    async fn process(&self, live: &Live, until: Deadline) -> Result<ProcessId, Failure> {
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let info = text(self.wire.send(live, info.into(), until).await?)?;
        let id = fitness::field(&info, "run_id").and_then(ProcessId::parse);
        id.ok_or_else(|| Failure::Unknown(strange("INFO server has no run_id")))
    }

    async fn load(&self, live: &Live, scripts: &[&Script], until: Deadline) -> Result<(), Failure> {
        let loads = scripts.iter().map(|script| {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.code());
            self.wire.send(live, load.into(), until)
        });
        futures_util::future::try_join_all(loads).await.map(drop)
    }

    async fn carry_out(
        &self,
        process: ProcessId,
        steps: &[Step],
        until: Deadline,
    ) -> Vec<NodeReply> {
        let all: Vec<&Step> = steps.iter().collect();
        let scripts = self.scripts(process);
        let grants = |step: &&Step| matches!(step.op, Op::Acquire { .. });
        let script = match all.iter().any(grants) {
            true => &scripts.steps,
            false => &scripts.keeping,
        };
        match self.call_steps(&scripts, script, &all, until).await {
            Err(failure) if failure.is_full() => {
                self.note_refused(failure.refusal());
                // Nothing was done; steps that need no memory are done anyway.
                let rest: Vec<&Step> = all.iter().copied().filter(|step| !grants(step)).collect();
                let mut kept = match rest.is_empty() {
                    true => Vec::new(),
                    false => {
                        let kept = self.call_steps(&scripts, &scripts.keeping, &rest, until).await;
                        kept.unwrap_or_else(|failure| vec![failure.reply(); rest.len()])
                    }
                }
                .into_iter();
                let reply = |step: &&Step| match grants(step) {
                    true => NodeReply::Refused(Refusal::Unfit),
                    false => kept.next().unwrap_or(NodeReply::Unknown),
                };
                all.iter().map(reply).collect()
            }
            Err(failure) => {
                self.note_refused(failure.refusal());
                vec![failure.reply(); steps.len()]
            }
            Ok(replies) => {
                if replies.contains(&NodeReply::Refused(Refusal::Unfit)) {
                    self.note_refused(Some(FOREIGN.to_owned()));
                }
                replies
            }
        }
    }

    /// Sets the reason of the last refusal. `None` clears it: a missing answer has another reason.
    fn note_refused(&self, why: Option<String>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    async fn call_steps(
        &self,
        scripts: &NodeScripts,
        script: &Script,
        steps: &[&Step],
        until: Deadline,
    ) -> Result<Vec<NodeReply>, Failure> {
        let live = self.wire.live()?;
        let command = messages::command(script, &self.key, &self.keys, steps);
        let answer = text(self.call(&live, scripts, command, until).await?)?;
        Ok(messages::replies(&answer, steps))
    }

    async fn carry_out_task(&self, task: Task) -> Result<TaskReply, Failure> {
        let until = Deadline::after(self.wire.now(), TASK_LIMIT);
        let live = self.wire.up(TASK_LIMIT).await?;
        let (process, argument) = match task {
            Task::Look => return self.look(&live, until).await.map(TaskReply::Look),
            Task::Survey => return self.survey(&live, until).await.map(TaskReply::Survey),
            Task::Propose { process, nonce, max_ttl, first } => {
                (process, messages::propose(nonce, max_ttl, first))
            }
            Task::High { process } => (process, "H".to_owned()),
            Task::Admit { process, nonce, floor } => (process, messages::admit(nonce, floor)),
        };
        // It may have waited for long since the last check.
        if matches!(task, Task::Admit { .. }) {
            self.fit_process(&live, until).await?;
        }
        let scripts = self.scripts(process);
        let mut command = redis::cmd("EVALSHA");
        command.arg(scripts.task.hash()).arg(1).arg(&self.key).arg(argument);
        let answer = text(self.call(&live, &scripts, command, until).await?)?;
        match (task, answer.as_str()) {
            (_, "W") => Ok(TaskReply::Refused(Refusal::NotAdmitted)),
            (_, "") => Ok(TaskReply::Marker(None)),
            (Task::High { .. }, record) => {
                let (marker, high) = self.record(record)?;
                Ok(TaskReply::High { high, max_ttl: marker.max_ttl })
            }
            (_, record) => Ok(TaskReply::Marker(Some(self.record(record)?.0))),
        }
    }

    /// Returns which process answers, if its settings allow it to vote. An operator may have
    /// changed them since the client connected.
    async fn fit_process(&self, live: &Live, until: Deadline) -> Result<ProcessId, Failure> {
        let info = text(self.wire.send(live, info().into(), until).await?)?;
        if let Some(refusal) = fitness::refusal(&info) {
            return Err(Failure::Unfit(refusal));
        }
        let id = fitness::field(&info, "run_id").and_then(ProcessId::parse);
        id.ok_or_else(|| Failure::Unknown(strange("INFO server has no run_id")))
    }

    /// Returns which process answers, and its marker; loads the scripts.
    async fn look(&self, live: &Live, until: Deadline) -> Result<Look, Failure> {
        let process = self.fit_process(live, until).await?;
        let mut get = redis::cmd("GET");
        get.arg(&self.key);
        let (marker, high) = match self.wire.send(live, get.into(), until).await? {
            Value::Nil => (None, 0),
            record => {
                let (marker, high) = self.record(&text(record)?)?;
                (Some(marker), high)
            }
        };
        self.load(live, &self.scripts(process).all(), until).await?;
        let voted = high > 0 || marker.is_some_and(|marker| marker.admitted);
        Ok(Look { process, marker, voted })
    }

    /// Returns whether the node has ever voted. If its own key does not show that, a lock record
    /// may.
    async fn survey(&self, live: &Live, until: Deadline) -> Result<Survey, Failure> {
        let look = self.look(live, until).await?;
        let voted = look.voted || self.knows_a_lock(live).await?;
        Ok(Survey { look, voted })
    }

    /// Returns whether the server knows a lock of a quorum. It scans all keys, page by page.
    async fn knows_a_lock(&self, live: &Live) -> Result<bool, Failure> {
        let mut scan = Scan::new(&self.keys, "");
        while let Some(command) = scan.next() {
            let until = Deadline::after(self.wire.now(), LIMIT);
            scan.take(self.wire.send(live, command.into(), until).await?)?;
            let page = scan.take_names();
            let known = |lease: &Result<Option<NodeLease>>| matches!(lease, Ok(Some(_)));
            if self.leases_of(&page).await?.iter().any(known) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn record(&self, text: &str) -> Result<messages::Record, Failure> {
        messages::record(text).ok_or_else(|| {
            let newer = text == "V" || messages::is_newer(text, 'N');
            Failure::Unknown(foreign(if newer { b'V' } else { b'F' }, &self.key))
        })
    }

    async fn look_at_fitness(&self) -> Verdict {
        if let ConnectionState::Down(Some(cause)) = self.wire.settled(TASK_LIMIT).await {
            return Verdict::of_no_connection(cause);
        }
        let asked = self.wire.now();
        let until = Deadline::after(asked, TASK_LIMIT);
        let answer = match self.wire.live() {
            Ok(live) => self.wire.send(&live, info().into(), until).await.and_then(text),
            Err(failure) => Err(failure),
        };
        match answer {
            Ok(info) => Verdict::of(&info, asked, self.wire.now()),
            Err(failure) => Verdict::of_no_info(failure),
        }
    }

    async fn leases_of(&self, names: &[Name]) -> Result<Vec<Result<Option<NodeLease>>>, Failure> {
        let live = self.wire.up(LIMIT).await?;
        let mut leases = Vec::new();
        for page in names.chunks(READ) {
            let mut command = redis::cmd("EVALSHA");
            command.arg(self.leases.hash()).arg(page.len());
            for name in page {
                command.arg(self.keys.of(name));
            }
            let until = Deadline::after(self.wire.now(), LIMIT);
            let command = Arc::new(command);
            let answer = match self.wire.send(&live, command.clone(), until).await {
                Err(Failure::Answer(error)) if is_no_script(&error) => {
                    self.load(&live, &[&self.leases], until).await?;
                    self.wire.send(&live, command, until).await?
                }
                answer => answer?,
            };
            let Value::Array(answers) = answer else {
                return Err(Failure::Unknown(strange(answer)));
            };
            let (now, records) = answers.split_first().ok_or_else(|| strange("no time"))?;
            let now = messages::number(&text(now.clone())?)?;
            for (name, record) in page.iter().zip(records) {
                leases.push(messages::lease(&self.keys.of(name), record, now));
            }
        }
        Ok(leases)
    }

    async fn names_of(&self, prefix: &str) -> Result<Vec<Name>, Failure> {
        let live = self.wire.up(LIMIT).await?;
        let mut scan = Scan::new(&self.keys, prefix);
        while let Some(command) = scan.next() {
            let until = Deadline::after(self.wire.now(), LIMIT);
            scan.take(self.wire.send(&live, command.into(), until).await?)?;
        }
        Ok(scan.names())
    }
}

impl QuorumNode for RedisNode {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn attach(&self, client: ClientId, events: NodeSink) {
        let hints = Hints { keys: self.keys.clone(), events };
        self.wire.order(Order::Subscribe(push::channel(client), Arc::new(hints)));
    }

    fn steps(
        &self,
        process: ProcessId,
        steps: Vec<Step>,
        limit: Duration,
    ) -> BoxFuture<'_, Vec<NodeReply>> {
        let until = Deadline::after(self.wire.now(), limit);
        Box::pin(async move { self.carry_out(process, &steps, until).await })
    }

    fn task(&self, task: Task) -> BoxFuture<'_, TaskReply> {
        Box::pin(async move {
            match self.carry_out_task(task).await {
                Ok(reply) => reply,
                Err(Failure::Stranger) => TaskReply::Refused(Refusal::Stranger),
                Err(failure @ Failure::Unfit(_)) => {
                    self.note_refused(failure.refusal());
                    TaskReply::Refused(Refusal::Unfit)
                }
                Err(failure) => {
                    self.note_refused(failure.refusal());
                    tracing::debug!(place = %self.place, error = %failure.error(), "no answer");
                    TaskReply::Unknown
                }
            }
        })
    }

    fn leases<'a>(
        &'a self,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<Vec<Result<Option<NodeLease>>>>> {
        Box::pin(async move { self.leases_of(names).await.map_err(Failure::error) })
    }

    fn names<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Name>>> {
        Box::pin(async move {
            let mut names = self.names_of(prefix).await.map_err(Failure::error)?;
            names.truncate(limit);
            Ok(names)
        })
    }

    fn marker_key(&self) -> String {
        self.key.clone()
    }

    fn trouble(&self) -> Option<String> {
        let refused = || self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.wire.down().or_else(refused)
    }

    fn fitness(&self) -> BoxFuture<'_, Fitness> {
        Box::pin(async move { self.look_at_fitness().await.at(&self.place) })
    }
}

/// Reads the marker from a node's own record; `None` for any other value.
pub(crate) fn marker(record: &str) -> Option<Marker> {
    messages::record(record).map(|(marker, _)| marker)
}

/// Parses the pushes of the node's server.
#[derive(Debug)]
struct Hints {
    keys: Keys,
    events: NodeSink,
}

impl Listener for Hints {
    fn message(&self, payload: &[u8]) {
        let key = std::str::from_utf8(payload).ok().and_then(|text| text.strip_prefix('F'));
        if let Some(name) = key.and_then(|key| self.keys.name(key)) {
            self.events.send(NodeEvent::Freed(name));
        }
    }

    fn subscribed(&self) {
        self.events.send(NodeEvent::Reset);
    }

    fn broken(&self) {}
}

/// Builds the INFO command that shows whether a server may vote.
fn info() -> Cmd {
    let mut info = redis::cmd("INFO");
    info.arg("server").arg("memory").arg("replication");
    info
}

fn text(value: Value) -> Result<String, Failure> {
    redis::from_redis_value(value).map_err(|error| Failure::Unknown(strange(error.to_string())))
}
