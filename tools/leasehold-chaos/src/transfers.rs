//! Many multi-locks over a few names, from several processes: none may deadlock, each has all of its locks or none, and
//! nothing stays behind.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use leasehold::{ErrorKind, State};
use leasehold_test_servers::Process;
use serde_json::json;

use crate::cluster::{Cluster, temporary};
use crate::gate::Gates;
use crate::part::Part;
use crate::resource::{Resource, Visit};
use crate::setup::SetUp;
use crate::{MS, Result, SECOND, now};

/// No lease ends by its time here: that would be another way out of a deadlock. Servers with admission grant less, and
/// those that wait are renewed.
const LONG: Duration = Duration::from_secs(3600);
/// No multi-lock for which a process waits for good comes later than this on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// One of so many waits for this time alone, and then has none of its locks.
const HURRIES: u32 = 10;
const SHORT: Duration = Duration::from_millis(5);
/// Locks of one multi-lock.
const MANY: std::ops::RangeInclusive<usize> = 2..=5;
const STEP: Duration = Duration::from_millis(5);

/// The arguments of a run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TransferArgs {
    /// The set-up of servers
    #[arg(long, value_name = "NAME", default_value = "redis")]
    engine: SetUp,
    /// Multi-locks in all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    times: u32,
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=50))]
    clients: u32,
    /// Names
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(5..=64))]
    names: u32,
    /// Draws the names
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The arguments of a process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MoverArgs {
    /// The store
    url: String,
    /// Number of this process, from 1
    number: u32,
    /// Where resources are
    folder: PathBuf,
    /// Multi-locks of this process
    times: u32,
    /// Names
    names: u32,
    /// Draws the names
    seed: u64,
    /// How long a lease lasts without renewal, in ms
    ttl_ms: u64,
}

/// What a process has done.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    done: u64,
    timeouts: u64,
    locks: u64,
}

fn name(number: u32) -> String {
    format!("account/{number}")
}

fn file(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("account-{number}"))
}

/// Takes multi-locks one after the other, and counts under each of their locks.
pub(crate) fn play(args: &MoverArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = leasehold::connect(&args.url).await?;
        let mut rng = fastrand::Rng::with_seed(args.seed << 16 | u64::from(args.number));
        let ttl = Duration::from_millis(args.ttl_ms);
        let (mut moved, gates) = (Moved::default(), Gates::in_folder(&args.folder));
        for _ in 0..args.times {
            let mut all: Vec<u32> = (0..args.names).collect();
            rng.shuffle(&mut all);
            all.truncate(rng.usize(MANY));
            let hurries = rng.u32(..HURRIES) == 0;
            let wait = if hurries { SHORT } else { PATIENCE };
            let locks = client.lock_all(all.iter().map(|one| name(*one))).ttl(ttl).wait(wait);
            let guard = match locks.acquire().await {
                Ok(guard) => guard,
                Err(error) if hurries && error.kind() == ErrorKind::Timeout => {
                    moved.timeouts += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let entered = gates.enter(Part::of_slots(&all))?;
            if entered.met {
                return Err(format!("another process has one of {all:?} too").into());
            }
            let mut seen = Vec::new();
            for (locked, token) in guard.tokens() {
                let number = all.iter().copied().find(|one| name(*one) == locked.as_str());
                let number = number.ok_or_else(|| format!("{locked} was not asked for"))?;
                let resource = Resource::open(&file(&args.folder, number), true)?;
                let value = resource.read(args.number, token.get())?;
                let value =
                    value.ok_or_else(|| format!("{locked}: token {token} is an old one"))?;
                seen.push((resource, token.get(), value));
            }
            if seen.len() != all.len() {
                return Err(format!("{} locks of {} are held", seen.len(), all.len()).into());
            }
            tokio::time::sleep(Duration::from_nanos(rng.u64(..2 * MS))).await;
            for (resource, token, value) in &seen {
                if !resource.write(args.number, *token, value + 1)? {
                    return Err(format!("token {token} was fenced while its lock was held").into());
                }
            }
            drop(entered);
            guard.release().await?;
            moved.done += 1;
            moved.locks += seen.len() as u64;
        }
        client.close().await;
        let Moved { done, timeouts, locks } = moved;
        let object = json!({ "done": done, "timeouts": timeouts, "locks": locks });
        Ok(fs::write(args.folder.join(format!("moved-{}", args.number)), object.to_string())?)
    })
}

/// True when every promise was kept.
pub(crate) fn run(args: &TransferArgs) -> Result<bool> {
    let cluster = Cluster::start(args.engine, &[])?;
    let temporary = temporary("transfers")?;
    let (folder, url, begun) = (temporary.path().to_path_buf(), cluster.url(), now());
    let ttl = if args.engine.has_admission() { args.engine.max_ttl() } else { LONG };
    let mut movers = Vec::new();
    for number in 1..=args.clients {
        let words: Vec<OsString> = vec![
            "mover".into(),
            url.clone().into(),
            number.to_string().into(),
            folder.clone().into(),
            // The first ones take what is left.
            ((args.times + args.clients - number) / args.clients).to_string().into(),
            args.names.to_string().into(),
            args.seed.to_string().into(),
            ttl.as_millis().to_string().into(),
        ];
        let process = Process::start(&std::env::current_exe()?, |command| {
            command.args(words);
        })?;
        movers.push((number, process));
    }
    // A process gives up by itself when it waits in vain.
    let mut wrong = Vec::new();
    while !movers.is_empty() {
        movers.retain_mut(|(number, process)| {
            let Some(status) = process.ended() else { return true };
            if !status.success() {
                wrong.push(format!("process {number} has ended: {status}"));
            }
            false
        });
        sleep(STEP);
    }
    let time = now() - begun;
    let moved = sum(&folder, args.clients)?;
    wrong.extend(count(args, &folder, moved)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wrong.extend(runtime.block_on(left(&url, args.names))?);
    let Moved { done, timeouts, locks } = moved;
    println!(
        "{}",
        json!({
            "engine": args.engine.name(), "seed": args.seed, "clients": args.clients, "names": args.names,
            "done": done, "timeouts": timeouts, "locks": locks,
            "seconds": time as f64 / SECOND as f64, "broken": wrong,
        })
    );
    Ok(wrong.is_empty())
}

fn sum(folder: &Path, clients: u32) -> Result<Moved> {
    let mut all = Moved::default();
    for number in 1..=clients {
        // One that failed has said why.
        let Ok(text) = fs::read_to_string(folder.join(format!("moved-{number}"))) else { continue };
        let object: serde_json::Value = serde_json::from_str(&text)?;
        let number = |field: &str| object[field].as_u64().unwrap_or_default();
        all.done += number("done");
        all.timeouts += number("timeouts");
        all.locks += number("locks");
    }
    Ok(all)
}

/// Whether each lock was held as often as the processes say, one at a time.
fn count(args: &TransferArgs, folder: &Path, moved: Moved) -> Result<Vec<String>> {
    let (mut wrong, mut counted) = (Vec::new(), 0);
    for number in 0..args.names {
        let history = Resource::history(&file(folder, number)).unwrap_or_default();
        counted += history.last().map_or(0, |last| last.value);
        let reads: Vec<&Visit> = history.iter().filter(|one| !one.writes).collect();
        let again = reads.windows(2).filter(|pair| pair[0].token >= pair[1].token).count();
        if again > 0 {
            wrong.push(format!("{}: {again} tokens did not grow", name(number)));
        }
    }
    let all = moved.done + moved.timeouts;
    if all != u64::from(args.times) {
        wrong.push(format!("{all} of {} multi-locks have ended", args.times));
    }
    if counted != moved.locks {
        wrong.push(format!("{} locks were held, and {counted} were counted", moved.locks));
    }
    Ok(wrong)
}

/// Locks that are held or waited for, though all processes have ended.
async fn left(url: &str, names: u32) -> Result<Vec<String>> {
    let client = leasehold::connect(url).await?;
    let mut left = Vec::new();
    for number in 0..names {
        let status = client.lock(name(number)).status().await?;
        let waiters = status.waiters.map_or(0, |waiters| waiters.len()) + status.more_waiters;
        if status.state != State::Free || waiters > 0 {
            let (name, state) = (name(number), status.state);
            left.push(format!("{name} is {state:?} with {waiters} waiters"));
        }
    }
    client.close().await;
    Ok(left)
}
