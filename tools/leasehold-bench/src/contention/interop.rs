//! `interop`: processes of another library and of ours want one lock, ours in the format of that library (`?wire=`).
//! A judge who believes no lock tells whether two ever held it at once, also when processes are killed.

use std::thread::sleep;
use std::time::Duration;

use super::Subject;
use super::door::Door;
use super::judge;
use super::report::Report;
use crate::Result;
use crate::measure::percentile;
use crate::peers::Built;
use crate::store::Store;
use crate::table::separated;
use crate::talk::Talk;

const NAME: &str = "interop/lock";
const TASKS: &str = "2";
const HOLD_US: &str = "500";

/// `interop [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InteropArgs {
    /// How long each pair of libraries competes
    #[arg(long, value_name = "S", default_value = "20", value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
}

/// What one side has seen.
#[derive(Clone, Debug, Default)]
struct Side {
    held: u64,
    overlaps: u64,
    fallen: u64,
    /// How long its tasks waited for a lock that another task had before.
    waits_us: Vec<u64>,
}

impl Side {
    fn median(&self) -> String {
        let mut waits = self.waits_us.clone();
        waits.sort_unstable();
        percentile(&waits, 0.5).map_or("-".into(), |us| format!("{:.1} ms", us as f64 / 1e3))
    }

    /// What a failed run says.
    fn counts(&self) -> String {
        let Self { held, overlaps, fallen, .. } = self;
        format!("held {held} times, two at once {overlaps}, tokens that fell {fallen}")
    }
}

/// Lets each lock of the other libraries compete with ours, and prints a row for each.
pub(crate) fn run_interop(
    args: &InteropArgs,
    peers: &[Built],
    again: &[&str],
    notes: &[String],
) -> Result<()> {
    let time = Duration::from_secs(args.seconds);
    println!(
        "| lock of the other library | `wire` | held by it | held by ours | its wait, median | ours | two at once |"
    );
    println!("|---|---|---:|---:|---:|---:|---|");
    let mut broken = Vec::new();
    for peer in peers {
        let wire = wire_of(peer);
        let (ours, theirs) = compete(peer, wire, time, again)?;
        let overlaps = ours.overlaps + theirs.overlaps;
        let shown = |number: u64| separated(&number.to_string());
        println!(
            "| {} | `{wire}` | {} | {} | {} | {} | {} |",
            peer.subject,
            shown(theirs.held),
            shown(ours.held),
            theirs.median(),
            ours.median(),
            if overlaps == 0 { "never".to_owned() } else { shown(overlaps) },
        );
        let is_kept = overlaps == 0 && ours.fallen == 0 && ours.held > 0 && theirs.held > 0;
        if !is_kept {
            let (ours, theirs) = (ours.counts(), theirs.counts());
            broken.push(format!("{}: ours {ours}; theirs {theirs}", peer.subject));
        }
    }
    notes.iter().for_each(|note| println!("{note}"));
    match broken.is_empty() {
        true => Ok(()),
        false => Err(format!("not excluded, or starved: {}", broken.join("; ")).into()),
    }
}

fn wire_of(peer: &Built) -> &'static str {
    match peer.subject {
        "curator-mutex" => "curator",
        "go-etcd" | "jetcd" => "concurrency",
        "rueidislock-1" => "rueidis&majority=1",
        "rueidislock-2" => "rueidis&majority=2",
        subject if subject.starts_with("redisson") => "redisson",
        _ => "set-nx",
    }
}

/// Two processes of each side compete. After a third of the time one of each is killed and replaced.
fn compete(peer: &Built, wire: &str, time: Duration, again: &[&str]) -> Result<(Side, Side)> {
    let store = match (peer.engine(), peer.servers()) {
        ("zookeeper", _) => Store::ZooKeeper,
        #[cfg(feature = "etcd")]
        ("etcd", _) => Store::Etcd,
        #[cfg(not(feature = "etcd"))]
        ("etcd", _) => return Err("etcd: build with the feature etcd".into()),
        (_, 1) => Store::Redis,
        (_, several) => Store::Redlock(several),
    };
    let server = store.place()?;
    let door = Door::new(judge::LENGTH, 1)?;
    let start = |number: u32, is_ours: bool| -> Result<Talk> {
        let subject = if is_ours { Subject::Leasehold } else { Subject::Peer(peer.clone()) };
        let lock = if is_ours { super::leasehold::BESIDE_OTHERS } else { peer.lock };
        let file = door.path().display().to_string();
        let number = number.to_string();
        let words =
            ["contention", "multi", TASKS, lock, HOLD_US, NAME, &file, &number].map(str::to_owned);
        let mut talk = subject.start("contender", &words, again)?;
        let url = if is_ours { format!("{}?wire={wire}", server.url) } else { server.urls() };
        talk.say(&url)?;
        Ok(talk)
    };
    let begin = |talk: &mut Talk| {
        talk.expect("ready")?;
        talk.say("begin")?;
        talk.say("mark")
    };
    let mut sides = [(Vec::new(), true), (Vec::new(), false)];
    let mut number = 0;
    for (processes, is_ours) in &mut sides {
        for _ in 0..2 {
            number += 1;
            processes.push(start(number, *is_ours)?);
        }
    }
    for (processes, _) in &mut sides {
        processes.iter_mut().try_for_each(begin)?;
    }
    sleep(time / 3);
    for (processes, is_ours) in &mut sides {
        // Dropping it kills it, wherever it is.
        drop(processes.swap_remove(0));
        number += 1;
        let mut next = start(number, *is_ours)?;
        begin(&mut next)?;
        processes.push(next);
    }
    sleep(time * 2 / 3);
    let [ours, theirs] = sides.map(|(processes, _)| report(processes));
    Ok((ours?, theirs?))
}

fn report(mut processes: Vec<Talk>) -> Result<Side> {
    let mut side = Side::default();
    for process in &mut processes {
        process.say("enough")?;
        process.say("end")?;
    }
    for mut process in processes {
        let report: Report = serde_json::from_str(&process.hear()?)?;
        side.held += report.visits;
        side.overlaps += report.overlaps;
        side.fallen += report.fallen;
        side.waits_us.extend(report.waits_us);
        process.end()?;
    }
    Ok(side)
}
