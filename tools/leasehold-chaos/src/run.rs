//! A run: starts servers and clients, does to them what the plan says, and collects what they have
//! written down.

mod client_clocks;
mod connections;
mod left;
mod maintenance;
mod set_back;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use leasehold_test_servers::{ClockShim, Process, Shot, together};
use tempfile::TempDir;

use crate::check::{Evidence, Granted, Stopped, Visited};
use crate::client::{ClientArgs, Files, visit_file};
use crate::cluster::{Change, Cluster, Masters, temporary};
use crate::fault::{Fault, Injected};
use crate::journal::Story;
use crate::kept_plan;
use crate::master_switch::Switch;
use crate::operator::{Operation, Operator};
use crate::plan::{Plan, Planned};
use crate::progress::Progress;
use crate::resource::{RECORD, Resource, Visit, while_nobody_visits_any};
use crate::setup::SetUp;
use crate::workload::{LIMIT, Workload};
use crate::written::{Event, What, Written};
use crate::{Result, SECOND, now};

use self::connections::Connections;
use self::maintenance::SitsOut;

const STEP: Duration = Duration::from_millis(5);
/// Once everything works again, every client gets the lock within this time.
const PATIENCE: u64 = 60 * SECOND;

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) seed: u64,
    pub(crate) setup: SetUp,
    pub(crate) workload: Workload,
    pub(crate) time: Duration,
    pub(crate) clients: u32,
    pub(crate) tasks: u32,
    pub(crate) kinds: Vec<Fault>,
    /// What an operator runs meanwhile.
    pub(crate) operations: Vec<Operation>,
    /// The plan of a file, instead of one that the seed draws.
    pub(crate) written: Option<Written>,
    /// The `leasehold` command.
    pub(crate) leasehold: PathBuf,
    /// Where what was written down is kept; else it goes with the run.
    pub(crate) journal: Option<PathBuf>,
}

impl Order {
    /// What the run was, as a plan.
    pub(crate) fn written(&self, events: &[Event]) -> Written {
        Written {
            setup: self.setup,
            workload: self.workload,
            seed: self.seed,
            time: self.time,
            clients: self.clients,
            tasks: self.tasks,
            events: events.to_vec(),
        }
    }
}

/// Runs it.
pub(crate) fn run(order: &Order) -> Result<Evidence> {
    let mut run = Run::start(order)?;
    if let Err(error) = run.disturb().and_then(|()| run.calm()) {
        run.keep()?;
        return Err(error);
    }
    run.evidence()
}

/// A directory that was not there: journals of another run would be read as well.
fn made(folder: &Path) -> Result<PathBuf> {
    let failed = |error| format!("cannot make {}: {error}; name a new directory", folder.display());
    fs::create_dir(folder).map_err(failed)?;
    Ok(folder.canonicalize()?)
}

/// Whom a fault that lasts has happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Client(usize),
    Node(usize),
}

/// What has to be ended, and when.
#[derive(Clone, Copy, Debug)]
struct Lasting {
    whom: Whom,
    fault: Fault,
    from: u64,
    until: u64,
}

struct Client {
    process: Process,
    number: u32,
}

struct Run<'a> {
    order: &'a Order,
    /// Before the cluster, so that clients go first.
    clients: Vec<Client>,
    /// That of each client, by its place among them.
    clocks: Vec<ClockShim>,
    cluster: Cluster,
    files: Files,
    resources: Vec<Resource>,
    lasting: Vec<Lasting>,
    injected: Vec<Injected>,
    shots: Vec<(Shot, Injected)>,
    /// When processes were gone that were killed.
    gone: BTreeMap<u32, u64>,
    /// When they had ended.
    ended: BTreeMap<u32, u64>,
    started: u32,
    wrong: Vec<String>,
    /// What clients have left behind, and what is kept on purpose.
    left: Vec<String>,
    kept: Vec<String>,
    operator: Option<Operator>,
    sitting: Vec<SitsOut>,
    masters: Masters,
    connections: Connections,
    /// When a server has lost data for the last time.
    lost: u64,
    paused: Vec<Stopped>,
    /// When the first fault could have come, and the faults so far.
    begun: u64,
    events: Vec<Event>,
    folder: PathBuf,
    /// Removes the folder at the end.
    _temporary: Option<TempDir>,
}

impl<'a> Run<'a> {
    fn start(order: &'a Order) -> Result<Self> {
        let cluster = Cluster::start(order.setup, &order.kinds)?;
        let (folder, temporary) = match &order.journal {
            Some(folder) => (made(folder)?, None),
            None => {
                let temporary = temporary("chaos")?;
                (temporary.path().to_path_buf(), Some(temporary))
            }
        };
        let files = Files::in_folder(&folder);
        let resources = files.open_all(order.workload)?;
        let mut run = Self {
            order,
            clients: Vec::new(),
            clocks: client_clocks::build(order)?,
            cluster,
            files,
            resources,
            lasting: Vec::new(),
            injected: Vec::new(),
            shots: Vec::new(),
            gone: BTreeMap::new(),
            ended: BTreeMap::new(),
            started: 0,
            wrong: Vec::new(),
            left: Vec::new(),
            kept: Vec::new(),
            operator: None,
            sitting: Vec::new(),
            masters: Masters::default(),
            connections: Connections::default(),
            lost: 0,
            paused: Vec::new(),
            begun: now(),
            events: Vec::new(),
            folder,
            _temporary: temporary,
        };
        run.hire()?;
        for at in 0..order.clients as usize {
            let client = run.client(at)?;
            run.clients.push(client);
        }
        Ok(run)
    }

    /// Starts the client of a place.
    fn client(&mut self, at: usize) -> Result<Client> {
        self.started += 1;
        let number = self.started;
        let args = ClientArgs {
            url: self.cluster.url(),
            number,
            folder: self.folder.clone(),
            tasks: self.order.tasks,
            workload: self.order.workload,
        };
        let clock = self.clocks.get(at).into_iter().flat_map(ClockShim::env);
        let env = together(self.cluster.env().into_iter().chain(clock));
        let process = Process::start(&std::env::current_exe()?, |command| {
            command.args(args.words()).envs(env);
        })?;
        Ok(Client { process, number })
    }

    /// Lets things go wrong until the time is up.
    fn disturb(&mut self) -> Result<()> {
        let (progress, calm) = (Progress::of(self.order.time), self.order.workload.calm());
        let mut plan = match &self.order.written {
            Some(written) => Plan::written(written.faults()),
            None => Plan::new(self.order.seed, &self.order.kinds, calm),
        };
        let (start, time) = (now(), self.order.time.as_nanos() as u64);
        self.begun = start;
        let mut due = start + plan.first();
        while now() < start + time {
            self.heal(now())?;
            self.look_after()?;
            self.operate()?;
            self.look_at_masters();
            self.connections.look(&self.cluster);
            if now() >= due
                && let Some(planned) = plan.next()
            {
                let begun = now();
                self.events.push(Event { at: begun - start, what: What::Fault(planned) });
                self.inject(planned)?;
                due = plan.due(planned, begun, now());
                let drawn = self.order.written.is_none();
                if drawn && self.order.workload == Workload::Readers && planned.pause >= calm.time {
                    self.operator.iter_mut().for_each(|operator| operator.rest_until(due));
                }
            }
            progress.at((now() - start) / SECOND, self.so_far());
            sleep(STEP);
        }
        Ok(())
    }

    /// A few words on how it goes.
    fn so_far(&self) -> String {
        let visits = fs::metadata(self.files.resource(false)).map_or(0, |data| data.len()) / RECORD;
        format!("about {} acquisitions, {} faults", visits / 2, self.injected.len())
    }

    /// A client that has ended by itself is a mistake, and another takes its place.
    fn look_after(&mut self) -> Result<()> {
        for at in 0..self.clients.len() {
            if let Some(status) = self.clients[at].process.ended() {
                let number = self.clients[at].number;
                self.wrong.push(format!("client {number} has ended: {status}"));
                self.gone.insert(number, now());
                self.ended.insert(number, now());
                self.clients[at] = self.client(at)?;
            }
        }
        Ok(())
    }

    fn inject(&mut self, planned: Planned) -> Result<()> {
        match planned.fault {
            fault if fault.is_of_client() => self.strike(planned),
            _ => self.hit(planned),
        }
    }

    /// Something happens to a client: in every other case to the one that counted last.
    fn strike(&mut self, planned: Planned) -> Result<()> {
        let last = self.resources[0].last()?.client;
        let holder = self.clients.iter().position(|client| u64::from(client.number) == last);
        let any = (planned.target / 2) as usize % self.clients.len();
        let at = holder.filter(|_| planned.target.is_multiple_of(2)).unwrap_or(any);
        let stopped = self.lasts(Whom::Client(at));
        let from = now();
        if planned.fault == Fault::Kill {
            let number = self.clients[at].number;
            // Not after: others may have the lock before its end is known here.
            self.gone.insert(number, from);
            self.clients[at].process.kill();
            self.ended.insert(number, now());
            self.lasting.retain(|one| one.whom != Whom::Client(at));
            self.clients[at] = self.client(at)?;
            let injected = Injected { fault: planned.fault, from, until: now() };
            self.injected.push(injected);
            self.note(&injected, &format!("client {number}"))?;
        } else if planned.fault == Fault::ClientClock {
            let seconds = client_clocks::offset(planned.target / 4);
            self.clocks.get(at).map_or(Ok(()), |clock| clock.set_offset(seconds))?;
            let injected = Injected { fault: planned.fault, from, until: now() };
            self.injected.push(injected);
            let number = self.clients[at].number;
            self.note(&injected, &format!("client {number} by {seconds} s"))?;
        } else if !stopped && self.stopped() < self.clients.len() - 1 {
            // No client is stopped in the midst of a visit, or others would wait for it.
            let process = &self.clients[at].process;
            while_nobody_visits_any(&self.resources, &mut || process.stop())?;
            let number = self.clients[at].number;
            let injected = Injected { fault: planned.fault, from, until: from + planned.time };
            self.note(&injected, &format!("client {number}"))?;
            self.last(Whom::Client(at), planned, from);
        }
        Ok(())
    }

    fn stopped(&self) -> usize {
        self.lasting.iter().filter(|one| matches!(one.whom, Whom::Client(_))).count()
    }

    /// Something happens to a server, or on the way to it.
    fn hit(&mut self, planned: Planned) -> Result<()> {
        let nodes = self.cluster.nodes.len();
        // A stopped client may have the database's lock, and would go on only after this.
        if self.order.setup == SetUp::Sqlite && self.stopped() > 0 {
            return Ok(());
        }
        if planned.fault == Fault::ClockBack && !self.may_set_back()? {
            return Ok(());
        }
        let first = planned.target as usize % nodes;
        let one_request =
            matches!(planned.fault, Fault::LoseReply | Fault::Duplicate | Fault::Delay);
        let stopped = |node| {
            let stops = |one: &Lasting| one.whom == Whom::Node(node) && one.fault.silences();
            self.lasting.iter().any(stops)
        };
        let lasts = |fault| self.lasting.iter().any(|one| one.fault == fault);
        if planned.fault == Fault::Full && lasts(Fault::Full) {
            return Ok(());
        }
        let is_free = |at: &usize| {
            (one_request && self.cluster.nodes[*at].is_framed()) || !self.lasts(Whom::Node(*at))
        };
        let mut order = (first..first + nodes).map(|at| at % nodes);
        let may = |at: &usize| is_free(at) && self.cluster.may(planned.fault, *at, stopped);
        let Some(at) = order.find(may) else { return Ok(()) };
        let from = now();
        let shot = self.cluster.inject(at, planned)?;
        if planned.fault.loses_data() {
            self.lost = now();
        }
        if planned.fault.restarts() {
            self.sits_out(at, from);
            self.masters.restarted(&self.cluster, at, from);
        }
        let injected = Injected { fault: planned.fault, from, until: now() };
        let sentinel = match planned.fault {
            Fault::CutPeers => self.cluster.cut_sentinel(planned.target),
            _ => None,
        };
        let whom = match sentinel {
            Some(sentinel) => format!("sentinel {sentinel}"),
            None => format!("server {at}"),
        };
        self.note(&injected, &whom)?;
        match (planned.fault, shot) {
            (_, Some(shot)) => self.shots.push((shot, injected)),
            (fault, _) if fault.lasts() => self.last(Whom::Node(at), planned, from),
            _ => self.injected.push(injected),
        }
        Ok(())
    }

    /// Writes a fault down, with the times of the journals.
    fn note(&self, injected: &Injected, whom: &str) -> Result<()> {
        let Injected { fault, from, until } = injected;
        self.note_line(&format!("{from} {until} {fault} {whom}"))
    }

    fn note_line(&self, line: &str) -> Result<()> {
        let mut journal =
            File::options().create(true).append(true).open(self.folder.join("faults"))?;
        Ok(writeln!(journal, "{line}")?)
    }

    /// It has its effect from before it is done.
    fn last(&mut self, whom: Whom, planned: Planned, from: u64) {
        let until = now() + planned.time;
        self.lasting.push(Lasting { whom, fault: planned.fault, from, until });
    }

    fn lasts(&self, whom: Whom) -> bool {
        self.lasting.iter().any(|one| one.whom == whom)
    }

    /// Ends what has lasted long enough.
    fn heal(&mut self, time: u64) -> Result<()> {
        // What starts again after its disk was full may need the others.
        let silences = |one: &Lasting| one.fault.silences() && one.fault != Fault::Full;
        let stays = self.lasting.iter().any(|one| silences(one) && one.until > time);
        if !self.lasting.iter().any(|one| one.fault.silences()) {
            self.cluster.revive()?;
        }
        // A stopped client may have the database's lock.
        let locked = self.order.setup == SetUp::Sqlite
            && self.lasting.iter().any(|one| one.fault == Fault::Pause && one.until > time);
        let is_kept = |one: &Lasting| match one.fault {
            Fault::Full => stays,
            Fault::Password => stays && self.order.setup == SetUp::Etcd,
            Fault::Newer => locked,
            _ => false,
        };
        let is_over = |one: &&Lasting| one.until <= time && !is_kept(one);
        let (over, lasting) = self.lasting.iter().partition(is_over);
        self.lasting = lasting;
        let mut over: Vec<Lasting> = over;
        over.sort_by_key(|one| matches!(one.fault, Fault::Full | Fault::Newer | Fault::Password));
        for one in over {
            match one.whom {
                Whom::Client(at) => {
                    let Client { process, number } = &self.clients[at];
                    process.resume()?;
                    self.paused.push(Stopped { client: *number, from: one.from, until: now() });
                }
                Whom::Node(at) => self.cluster.heal(at, one.fault)?,
            }
            self.injected.push(Injected { fault: one.fault, from: one.from, until: now() });
        }
        Ok(())
    }

    /// Lets everything go well; every client gets the lock once more.
    fn calm(&mut self) -> Result<()> {
        self.heal(u64::MAX)?;
        self.cluster.nodes.iter().for_each(|node| node.forget_rules());
        self.operate_in_calm()?;
        fs::write(self.files.ending(), "")?;
        let from = now();
        while !self.clients.iter_mut().all(|client| client.process.ended().is_some()) {
            if now() > from + PATIENCE {
                break;
            }
            self.cluster.revive()?;
            self.look_at_masters();
            sleep(STEP);
        }
        for client in &mut self.clients {
            let number = client.number;
            match client.process.ended() {
                Some(status) if status.success() => {}
                Some(status) => self.wrong.push(format!("client {number} has ended: {status}")),
                None => {
                    let seconds = PATIENCE / SECOND;
                    let what = format!("waits in vain, {seconds} s after all was well again");
                    self.wrong.push(format!("client {number} {what}"));
                    client.process.kill();
                    self.gone.insert(number, now());
                    self.ended.insert(number, now());
                }
            }
        }
        self.look_for_leftovers()
    }

    /// The faults and commands so far.
    fn events(&self) -> Vec<Event> {
        let begun = self.operator.iter().flat_map(|operator| &operator.begun);
        let commands = begun.map(|(time, command)| {
            let at = time.saturating_sub(self.begun);
            Event { at, what: What::Command(*command) }
        });
        let mut events: Vec<Event> = self.events.iter().copied().chain(commands).collect();
        events.sort_by_key(|event| event.at);
        events
    }

    /// Writes the plan of a run that cannot go on, and the servers' logs beside its journals.
    fn keep(&mut self) -> Result<()> {
        let plan = self.order.written(&self.events());
        if let Some(path) = kept_plan::place(self.order.journal.as_deref(), &plan, false)? {
            kept_plan::keep(&plan, &path)?;
        }
        if self.order.journal.is_none() {
            return Ok(());
        }
        for (at, log) in self.cluster.logs() {
            fs::write(self.folder.join(format!("server-{at}.log")), log)?;
        }
        Ok(())
    }

    /// What happened to each resource with a fence.
    fn fenced(&self) -> Result<Vec<Vec<Visit>>> {
        let paths = match self.order.workload {
            Workload::Counter | Workload::Cached | Workload::Readers => {
                vec![self.files.resource(true)]
            }
            Workload::Permits => (0..LIMIT).map(|slot| self.files.slot(slot)).collect(),
        };
        Ok(paths.iter().map(|path| Resource::history(path)).collect::<std::io::Result<_>>()?)
    }

    fn evidence(mut self) -> Result<Evidence> {
        let fenced = self.fenced()?;
        for Switch { from, until } in &self.masters.switches {
            self.note_line(&format!("{from} {until} switch of the master"))?;
        }
        for Change { from, until, observer, port } in &self.masters.changes {
            self.note_line(&format!("{from} {until} observer {observer} names port {port}"))?;
        }
        let shots = self.shots.iter().filter(|(shot, _)| shot.happened());
        self.injected.extend(shots.map(|(_, injected)| *injected));
        self.injected.sort_by_key(|one| one.from);
        let events = self.events();
        let (ran, changed) = match self.operator {
            Some(operator) => (operator.ran, operator.wrong),
            None => Default::default(),
        };
        self.wrong.extend(changed);
        self.wrong.append(&mut self.cluster.wrong);
        let (clients, servers) = (self.clients.len(), self.cluster.nodes.len());
        self.wrong.extend(self.connections.wrong(clients, servers));
        let mut evidence = Evidence {
            injected: self.injected,
            setup: self.order.setup,
            workload: self.order.workload,
            fenced,
            unfenced: Resource::history(&self.files.resource(false))?,
            ran,
            switches: self.masters.switches,
            stopped: self.paused,
            events,
            wrong: self.wrong,
            connections: self.connections.busiest,
            left: self.left,
            kept: self.kept,
            ..Evidence::default()
        };
        for number in 1..=self.started {
            let text = fs::read_to_string(self.files.journal(number)).unwrap_or_default();
            let gone = self.gone.get(&number).copied();
            let mut story = Story::read(&text, number, gone);
            story.end_spans(self.ended.get(&number).copied().unwrap_or(u64::MAX));
            evidence.holds.extend(story.holds);
            evidence.spans.extend(story.spans.into_values());
            evidence.met.extend(story.met);
            evidence.losses += story.losses;
            evidence.queues.extend(story.queues.into_iter().map(|queue| (number, queue)));
            let granted = |(attempt, got)| (attempt, Granted { client: number, got });
            evidence.granted.extend(story.granted.into_iter().map(granted));
            evidence.failed.extend(story.failed);
            evidence.abandoned.extend(story.abandoned);
            let wrong = story.wrong.into_iter().map(|what| format!("client {number}: {what}"));
            evidence.wrong.extend(wrong);
            if !story.done && gone.is_none() {
                evidence.wrong.push(format!("client {number} did not get to its end"));
            }
        }
        for ran in evidence.ran.iter().filter(|ran| ran.operation == Operation::Run) {
            let file = visit_file(ran.from);
            let text = fs::read_to_string(self.folder.join(&file)).unwrap_or_default();
            let number = evidence.visited.len() as u32;
            evidence.visited.extend(Visited::read(&file, &text, number));
        }
        Ok(evidence)
    }
}
