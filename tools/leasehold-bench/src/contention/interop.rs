//! `interop`: processes of another library and of ours want one lock, ours in the format of that library (`?wire=`).
//! A judge who believes no lock tells whether two ever held it at once, also when processes are killed.

mod compete;
mod leases;
mod moves;
mod stage;
mod wakes;

use std::time::Duration;

use clap::ValueEnum;

use super::report::Report;
use crate::Result;
use crate::peers::Built;
use crate::progress::Progress;

/// `interop [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InteropArgs {
    /// How long each pair of libraries competes
    #[arg(long, value_name = "S", default_value = "20", value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// What is played
    #[arg(long, value_name = "SCENE,..", default_value = "compete", value_delimiter = ',')]
    scenes: Vec<Scene>,
    /// Only with these locks, by their names in tools/peers/README.md
    #[arg(long, value_name = "LOCK,..", value_delimiter = ',')]
    pub(crate) locks: Vec<String>,
}

/// What is played with each lock.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Scene {
    /// Four processes want the lock, and are killed now and then
    Compete,
    /// One process holds for ten leases while another waits, and is then killed (a minute for each lock)
    Leases,
    /// Two processes want the lock; how long it is free when it passes from one to the other
    Wakes,
    /// Eight processes move from the library to Leasehold, one after the other (seven minutes for each lock)
    Moves,
}

/// What a scene with one lock has shown.
#[derive(Clone, Debug)]
struct Row {
    cells: Vec<String>,
    /// What a failed run says.
    fault: Option<String>,
}

impl Scene {
    fn head(self) -> &'static str {
        match self {
            Self::Compete => compete::HEAD,
            Self::Leases => leases::HEAD,
            Self::Wakes => wakes::HEAD,
            Self::Moves => moves::HEAD,
        }
    }

    /// Whether it is played with this lock.
    fn is_for(self, peer: &Built) -> bool {
        match self {
            Self::Compete | Self::Leases | Self::Wakes => true,
            Self::Moves => moves::is_for(peer),
        }
    }

    fn play(self, peer: &Built, seconds: u64, again: &[&str]) -> Result<Row> {
        match self {
            Self::Compete => compete::play(peer, Duration::from_secs(seconds), again),
            Self::Leases => leases::play(peer, again),
            Self::Wakes => wakes::play(peer, Duration::from_secs(seconds), again),
            Self::Moves => moves::play(peer, again),
        }
    }
}

/// Plays the scenes with each lock of the other libraries and ours, and prints a row for each.
pub(crate) fn run_interop(
    args: &InteropArgs,
    peers: &[Built],
    again: &[&str],
    notes: &[String],
) -> Result<()> {
    let named =
        |peer: &&Built| args.locks.is_empty() || args.locks.iter().any(|lock| lock == peer.subject);
    let peers: Vec<&Built> = peers.iter().filter(named).collect();
    let is_missing = |lock: &&String| !peers.iter().any(|peer| peer.subject == **lock);
    if let Some(lock) = args.locks.iter().find(is_missing) {
        let missing = notes.join("; ");
        return Err(format!("--locks {lock}: no library here has it; {missing}").into());
    }
    let mut broken = Vec::new();
    for scene in &args.scenes {
        let peers: Vec<&&Built> = peers.iter().filter(|peer| scene.is_for(peer)).collect();
        let columns = scene.head().matches('|').count() - 1;
        let name =
            scene.to_possible_value().map_or(String::new(), |name| name.get_name().to_owned());
        println!("scene: {name}\n{}\n|{}", scene.head(), "---|".repeat(columns));
        let progress = Progress::of(peers.len());
        for peer in peers {
            progress.begin(format!("{name}: {}", peer.subject));
            match scene.play(peer, args.seconds, again) {
                Ok(Row { cells, fault }) => {
                    let first = [stage::title(peer.subject), peer.version()?, stage::format(peer)];
                    let cells: Vec<String> = first.into_iter().chain(cells).collect();
                    println!("| {} |", cells.join(" | "));
                    broken.extend(fault.map(|fault| format!("{}: {fault}", peer.subject)));
                }
                Err(error) => broken.push(format!("{}: {error}", peer.subject)),
            }
            progress.done();
        }
        println!();
    }
    notes.iter().for_each(|note| println!("{note}"));
    match broken.is_empty() {
        true => Ok(()),
        false => Err(broken.join("; ").into()),
    }
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
    fn add(&mut self, report: Report) {
        self.held += report.visits;
        self.overlaps += report.overlaps;
        self.fallen += report.fallen;
        self.waits_us.extend(report.waits_us);
    }

    /// What a failed run says.
    fn counts(&self) -> String {
        let Self { held, overlaps, fallen, .. } = self;
        format!("held {held} times, two at once {overlaps}, tokens that fell {fallen}")
    }
}
