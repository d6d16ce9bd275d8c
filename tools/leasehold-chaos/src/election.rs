//! An election whose leader is killed, stopped, cut off and demoted again and again, and a check of what the
//! candidates saw.

mod candidate;
mod judge;
mod plot;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use leasehold::{Client, Forced, Token};
use leasehold_test_servers::{Process, Proxy};

use crate::check::Stopped;
use crate::client::{Files, LULL, NAME};
use crate::cluster::{Cluster, temporary};
use crate::resource::{Resource, Visit};
use crate::setup::SetUp;
use crate::{MS, Result, SECOND, now};

pub(crate) use self::candidate::{CandidateArgs, play};
pub(crate) use self::judge::HEADER;
use self::judge::{Blow, Record, Trial};
pub(crate) use self::plot::{PlotArgs, plot};

const STEP: Duration = Duration::from_millis(2);
/// There is a leader again within this time, or the run ends.
const PATIENCE: u64 = 60 * SECOND;

/// The arguments of an election.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ElectionArgs {
    /// The set-up of servers
    #[arg(long, value_name = "NAME", default_value = "redis")]
    engine: SetUp,
    /// How often something happens to the leader
    #[arg(long, value_name = "N", default_value_t = 200)]
    times: u32,
    /// Candidates
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=50))]
    clients: u32,
    /// Draws what happens, and when; drawn itself unless given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Prints one row of the table in RUNS.md instead of the report
    #[arg(long)]
    row: bool,
    /// Writes each time without a leader to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    gaps: Option<PathBuf>,
    /// Keeps what each process wrote down, in a directory that is not there yet
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

/// A candidate, and its own way to each server.
struct Place {
    process: Process,
    number: u32,
    ways: Vec<Proxy>,
    url: String,
}

struct Campaign {
    // Before the cluster, so that candidates go first.
    places: Vec<Place>,
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
    operator: Client,
    folder: PathBuf,
    leader: Resource,
    started: u32,
    record: Record,
}

/// True when every promise was kept.
pub(crate) fn run(args: &ElectionArgs) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut rng = fastrand::Rng::with_seed(seed);
    let cluster = Cluster::start(args.engine, &[])?;
    let temporary = temporary("election")?;
    let folder = match &args.journal {
        Some(folder) => {
            fs::create_dir(folder)?;
            folder.canonicalize()?
        }
        None => temporary.path().to_path_buf(),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let operator = runtime.block_on(leasehold::connect(&cluster.url()))?;
    let leader = Files::in_folder(&folder).open(true)?;
    let record = Record::new(args.engine, seed, args.clients);
    let mut campaign = Campaign {
        places: Vec::new(),
        cluster,
        runtime,
        operator,
        folder,
        leader,
        started: 0,
        record,
    };
    for _ in 0..args.clients {
        let place = campaign.place()?;
        campaign.places.push(place);
    }
    let blows = Blow::of(args.engine);
    let mut bag: Vec<Blow> = Vec::new();
    for _ in 0..args.times {
        if bag.is_empty() {
            bag = blows.to_vec();
            rng.shuffle(&mut bag);
        }
        let Some(blow) = bag.pop() else { break };
        if !campaign.strike(blow, &mut rng)? {
            break;
        }
    }
    campaign.end()?;
    let verdict = campaign.record.judge(&Files::in_folder(&campaign.folder), campaign.started)?;
    verdict.show(args.row);
    if let Some(path) = &args.gaps {
        fs::write(path, verdict.gaps())?;
    }
    Ok(verdict.broken().is_empty())
}

impl Campaign {
    /// A candidate with its own proxies.
    fn place(&mut self) -> Result<Place> {
        let (mut url, mut ways) = (self.cluster.url(), Vec::new());
        let (named, addresses) = (self.cluster.names_servers(), self.cluster.addresses());
        for &address in &addresses {
            let way = if named { Proxy::start(address)? } else { Proxy::opaque(address)? };
            url = url.replace(&address.to_string(), &way.address().to_string());
            ways.push(way);
        }
        for way in ways.iter().filter(|_| named) {
            for (address, other) in addresses.iter().zip(&ways) {
                way.name_port(address.port(), other.address().port());
            }
        }
        let (process, number) = self.start(&url)?;
        Ok(Place { process, number, ways, url })
    }

    fn start(&mut self, url: &str) -> Result<(Process, u32)> {
        self.started += 1;
        let number = self.started;
        let args = CandidateArgs { url: url.to_owned(), number, folder: self.folder.clone() };
        let process = Process::start(&std::env::current_exe()?, |command| {
            command.args(args.words());
        })?;
        Ok((process, number))
    }

    /// Waits for a leader with a later token.
    fn leader_after(&mut self, token: u64) -> Result<Option<Visit>> {
        let end = now() + PATIENCE;
        loop {
            let last = self.leader.last()?;
            if last.token > token {
                return Ok(Some(last));
            }
            if now() > end {
                let seconds = PATIENCE / SECOND;
                self.record.wrong.push(format!("no leader after token {token} within {seconds} s"));
                return Ok(None);
            }
            sleep(STEP);
        }
    }

    /// Does something to the leader; false if there is none.
    fn strike(&mut self, blow: Blow, rng: &mut fastrand::Rng) -> Result<bool> {
        let last = self.record.trials.last().map_or(0, |trial| trial.token);
        let Some(leader) = self.leader_after(last)? else { return Ok(false) };
        sleep(Duration::from_nanos(rng.u64(100 * MS..600 * MS)));
        // It may have changed by itself.
        let (leader, client) = match self.leader.last()? {
            last if last.token >= leader.token => (last, last.client as u32),
            _ => (leader, leader.client as u32),
        };
        let Some(at) = self.places.iter().position(|place| place.number == client) else {
            return Ok(true);
        };
        let rest = rng.u64(..SECOND);
        let from = now();
        let mut trial = Trial { blow, token: leader.token, from, until: from };
        match blow {
            Blow::Kill => {
                self.record.gone.insert(client, from);
                self.places[at].process.kill();
                self.record.killed.insert(client, now());
                let url = self.places[at].url.clone();
                let (process, number) = self.start(&url)?;
                (self.places[at].process, self.places[at].number) = (process, number);
                self.record.since.insert(number, from);
                self.leader_after(leader.token)?;
            }
            Blow::Stop | Blow::Cut => {
                match blow {
                    Blow::Stop => self.stop(at)?,
                    _ => self.places[at].ways.iter().for_each(Proxy::cut_all),
                }
                if blow == Blow::Stop && self.cluster.setup == SetUp::File {
                    // Only the end of its process ends its lease.
                    sleep(Duration::from_nanos(SECOND + rest));
                    let now_leads = self.leader.last()?.token;
                    if now_leads != leader.token {
                        self.record
                            .wrong
                            .push(format!("a stopped leader was replaced: {now_leads}"));
                    }
                } else {
                    self.leader_after(leader.token)?;
                    sleep(Duration::from_nanos(rest));
                }
                self.places[at].process.resume()?;
                self.places[at].ways.iter().for_each(Proxy::heal);
                if blow == Blow::Stop {
                    self.record.stopped.push(Stopped { client, from, until: now() });
                }
                if blow == Blow::Stop && self.cluster.setup == SetUp::File {
                    // It leads on.
                    self.record.led_on += 1;
                    self.record.disturbed.push((client, from, now()));
                    return Ok(true);
                }
            }
            Blow::Demote => {
                let Some(token) = Token::new(leader.token) else { return Ok(true) };
                let lock = self.operator.lock(NAME);
                match self.runtime.block_on(lock.force_release(token)) {
                    Ok(Forced::Ended) => self.record.demoted(leader.token, from, now()),
                    Ok(_) => return Ok(true),
                    Err(error) => self.record.wrong.push(format!("force-release: {error}")),
                }
                self.leader_after(leader.token)?;
            }
            Blow::Vacate => {
                fs::write(self.folder.join(LULL), "")?;
                self.until_left(client)?;
                sleep(Duration::from_nanos(SECOND + rest));
                fs::remove_file(self.folder.join(LULL))?;
                trial.from = now();
                self.record.vacant.push((leader.token, trial.from));
                self.leader_after(leader.token)?;
            }
        }
        trial.until = now();
        self.record.disturbed.push((client, from, trial.until));
        self.record.trials.push(trial);
        Ok(true)
    }

    /// Stops a leader. While it writes the database of SQLite it is not stopped: no other process could write before
    /// it continues.
    fn stop(&self, at: usize) -> Result<()> {
        let (process, end) = (&self.places[at].process, now() + PATIENCE);
        loop {
            self.leader.while_nobody_visits(|| process.stop())?;
            if self.cluster.setup != SetUp::Sqlite || !writes_a_file(process.pid())? {
                return Ok(());
            }
            process.resume()?;
            if now() > end {
                let seconds = PATIENCE / SECOND;
                return Err(format!("the leader did not end a write within {seconds} s").into());
            }
            sleep(STEP);
        }
    }

    /// Waits until a leader has given back the file lock of the judge: on a busy machine it may resign late.
    fn until_left(&self, client: u32) -> Result<()> {
        let (journal, end) = (Files::in_folder(&self.folder).journal(client), now() + PATIENCE);
        while now() < end {
            let text = fs::read_to_string(&journal)?;
            if text.rfind("\nleft ") > text.rfind("held ") {
                break;
            }
            sleep(STEP);
        }
        Ok(())
    }

    /// Ends all candidates.
    fn end(&mut self) -> Result<()> {
        sleep(Duration::from_millis(500));
        self.record.ended = now();
        fs::write(self.folder.join("ending"), "")?;
        let end = now() + PATIENCE;
        while !self.places.iter_mut().all(|place| place.process.ended().is_some()) && now() < end {
            sleep(STEP);
        }
        for place in &mut self.places {
            if place.process.ended().is_none() {
                self.record.wrong.push(format!("candidate {} does not end", place.number));
                self.record.gone.insert(place.number, now());
                place.process.kill();
            }
        }
        let status = self.runtime.block_on(self.operator.lock(NAME).status())?;
        if status.state == leasehold::State::Held {
            let end = now() + 10 * SECOND;
            let mut held = true;
            while held && now() < end {
                sleep(Duration::from_millis(100));
                let status = self.runtime.block_on(self.operator.lock(NAME).status())?;
                held = status.state == leasehold::State::Held;
            }
            if held {
                self.record.wrong.push("there is a leader though no candidate is left".to_owned());
            }
        }
        self.runtime.block_on(self.operator.close());
        Ok(())
    }
}

/// Whether a process has a file lock to write, of those that SQLite uses. With a write-ahead log each connection has
/// locks to read for as long as it is open, which do not hold up writers.
fn writes_a_file(pid: u32) -> std::io::Result<bool> {
    let pid = pid.to_string();
    let is_its = |line: &str| {
        // A number, the kind, how it is enforced, whether it is to write, and the process.
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"POSIX")
            && words.get(3) == Some(&"WRITE")
            && words.get(4) == Some(&pid.as_str())
    };
    Ok(fs::read_to_string("/proc/locks")?.lines().any(is_its))
}

/// The times in which candidates were gone or started.
type Times = BTreeMap<u32, u64>;
