//! The operator's part of a run: commands beside the load, the same commands once more when all is well,
//! and nodes that must not vote before their wait is over.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::{Lasting, Run, STEP, Whom};
use crate::client::KEPT;
use crate::fault::Fault;
use crate::operator::{LIMIT, Operation, Operator, Outcome, Plan};
use crate::setup::SetUp;
use crate::{Result, SECOND, now};

/// A server that was restarted at this time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SitsOut {
    node: usize,
    since: u64,
}

/// What the operator runs when no fault is left, and the choice of its arguments.
const IN_CALM: [(Operation, u64); 13] = [
    // Waits until each node votes.
    (Operation::QuorumInit, 0),
    (Operation::QuorumStatus, 0),
    // The same on a running quorum, and what must be refused there.
    (Operation::QuorumInit, 0),
    (Operation::QuorumInit, 2),
    (Operation::List, 0),
    (Operation::Status, 0),
    (Operation::Init, 0),
    (Operation::Doctor, 0),
    (Operation::ForceRelease, 3),
    (Operation::Forget, 0),
    (Operation::Run, 1),
    (Operation::CleanUp, 0),
    // It removes what the one before has used.
    (Operation::CleanUp, 0),
];

/// A run of this length waits for a minute more.
const LONG: Duration = Duration::from_secs(300);
/// The pause before a command in calm is repeated.
const PAUSE: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// The operator, if there is one.
    pub(super) fn hire(&mut self) -> Result<()> {
        let order = self.order;
        if order.operations.is_empty() {
            return Ok(());
        }
        if !order.leasehold.is_file() {
            return Err(format!(
                "no command at {}; build it with `cargo build -p leasehold-cli`, name it with --leasehold, \
                 or add --no-operators",
                order.leasehold.display()
            )
            .into());
        }
        let plan = match &order.written {
            Some(written) => Plan::written(written.commands()),
            None => Plan::new(order.seed, &order.operations),
        };
        let (url, folder) = (self.cluster.url(), &self.folder);
        self.operator = Some(Operator::new(&order.leasehold, folder, url, order.workload, plan));
        Ok(())
    }

    /// Lets the operator go on, and looks at nodes that must not vote yet.
    pub(super) fn operate(&mut self) -> Result<()> {
        let token = self.resources[0].last()?.token;
        let stopped = stopped(&self.lasting);
        if let Some(operator) = &mut self.operator {
            operator.step(&self.cluster, token, stopped)?;
        }
        self.look_at_votes();
        Ok(())
    }

    /// Takes note of the server that is the master now.
    pub(super) fn look_at_masters(&mut self) {
        self.masters.look(&self.cluster, stopped(&self.lasting));
    }

    /// Takes note that a server is another process since then.
    pub(super) fn sits_out(&mut self, node: usize, since: u64) {
        self.sitting.retain(|one| one.node != node);
        if self.cluster.setup.has_admission() {
            self.sitting.push(SitsOut { node, since });
        }
    }

    /// A node that may have forgotten leases has no vote until they are over.
    fn look_at_votes(&mut self) {
        let (wait, time) = (self.cluster.setup.max_ttl().as_nanos() as u64, now());
        let (due, rest) = self.sitting.iter().partition(|one| time >= one.since + wait * 9 / 10);
        self.sitting = rest;
        let due: Vec<SitsOut> = due;
        let stopped = stopped(&self.lasting);
        for SitsOut { node, since } in due {
            let votes = !stopped(node) && self.cluster.nodes[node].votes();
            let ms = (now() - since) / crate::MS;
            if votes && ms < wait / crate::MS {
                self.wrong.push(format!("node {node} votes {ms} ms after it was restarted"));
            }
        }
    }

    /// Runs each command once more: with no fault left, what need not be refused has to succeed.
    pub(super) fn operate_in_calm(&mut self) -> Result<()> {
        let Some(operator) = &mut self.operator else { return Ok(()) };
        operator.stop_drawing();
        self.until_idle()?;
        self.until_pooler_serves()?;
        for (operation, way) in IN_CALM {
            if self.order.operations.contains(&operation) {
                self.operate_once_in_calm(operation, way)?;
            }
        }
        self.clean_up_later()
    }

    /// PgBouncer refuses clients for a second after a login at its server has failed, also if the server
    /// is well by then. If it refuses for longer than [`LIMIT`], the commands that follow show it.
    fn until_pooler_serves(&mut self) -> Result<()> {
        let (url, end) = (self.cluster.url(), now() + LIMIT);
        while self.order.setup == SetUp::Pgbouncer && now() < end {
            let mut list = Command::new(&self.order.leasehold);
            list.args(["--store", &url, "list"]).envs(self.cluster.env());
            if list.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
                break;
            }
            self.look_after()?;
            sleep(STEP);
        }
        Ok(())
    }

    /// In a long run, cleans up once more when servers with admission do not keep records any longer.
    fn clean_up_later(&mut self) -> Result<()> {
        let order = self.order;
        let cleans_up = order.operations.contains(&Operation::CleanUp);
        if !cleans_up || !order.setup.has_admission() || order.time < LONG {
            return Ok(());
        }
        let end = now() + KEPT + SECOND;
        while now() < end {
            self.look_after()?;
            self.operate()?;
            sleep(STEP);
        }
        self.operate_once_in_calm(Operation::CleanUp, 0)
    }

    /// Runs a command, again while the master may just be replaced.
    fn operate_once_in_calm(&mut self, operation: Operation, way: u64) -> Result<()> {
        let end = now() + 2 * LIMIT;
        loop {
            let Some(operator) = &mut self.operator else { return Ok(()) };
            let before = operator.ran.len();
            operator.start_in_calm(operation, way, &self.cluster)?;
            self.until_idle()?;
            let ran = self.operator.iter().flat_map(|operator| operator.ran.get(before..));
            let unavailable = ran.flatten().find(|ran| ran.outcome() == Outcome::Unavailable);
            let Some(unavailable) = unavailable.filter(|_| self.order.setup.is_replicated()) else {
                return Ok(());
            };
            if now() > end {
                self.wrong.push(format!("for long, though all is well: {}", unavailable.told()));
                return Ok(());
            }
            sleep(PAUSE);
        }
    }

    fn until_idle(&mut self) -> Result<()> {
        let end = now() + 2 * LIMIT;
        while self.operator.as_ref().is_some_and(|operator| !operator.is_idle()) && now() < end {
            self.look_after()?;
            self.operate()?;
            self.look_at_masters();
            sleep(STEP);
        }
        Ok(())
    }
}

/// Which nodes cannot answer now.
fn stopped(lasting: &[Lasting]) -> impl Fn(usize) -> bool + use<> {
    let stopped: Vec<Whom> =
        lasting.iter().filter(|one| one.fault == Fault::Stop).map(|one| one.whom).collect();
    move |node| stopped.contains(&Whom::Node(node))
}
