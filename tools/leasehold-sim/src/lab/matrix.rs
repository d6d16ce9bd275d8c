//! Every set-up under every kind of trouble, over many seeds.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::text::{Language, capital, columns};
use super::words::trouble;
use crate::simulator::{SECOND, Setup, Trouble, plan, run};

/// What was seen in the runs of one set-up under one kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The set-up.
    pub setup: Setup,
    /// The trouble.
    pub trouble: Trouble,
    /// How many runs.
    pub runs: u64,
    /// How often the lock was had.
    pub holds: u64,
    /// How often a client acquired it while another believed to hold it.
    pub overlaps: u64,
    /// Updates that were lost by the resource without a fence.
    pub lost_plain: u64,
    /// Updates that were lost by the one with a fence; `None` where there are no tokens.
    pub lost_fenced: Option<u64>,
    /// Stale writes that a fence has taken.
    pub stale: Option<u64>,
    /// Tokens used twice or out of order.
    pub inversions: Option<u64>,
    /// The longest time without a holder while a client wanted the lock, in milliseconds: the mean
    /// over the runs.
    pub gap_ms: u64,
    /// Runs in which a promise of the set-up was broken.
    pub broken: u64,
}

impl Cell {
    fn new(setup: Setup, trouble: Trouble, seeds: u64) -> Self {
        let tokens = setup.tokens().then_some(0);
        let mut cell = Self {
            setup,
            trouble,
            runs: seeds,
            holds: 0,
            overlaps: 0,
            lost_plain: 0,
            lost_fenced: tokens,
            stale: tokens,
            inversions: tokens,
            gap_ms: 0,
            broken: 0,
        };
        let mut gaps = 0;
        for seed in 0..seeds {
            let (seen, _) = run(&plan(setup, trouble, seed), seed);
            cell.holds += seen.holds;
            cell.overlaps += seen.overlaps;
            cell.lost_plain += seen.lost_plain;
            cell.lost_fenced = cell.lost_fenced.map(|lost| lost + seen.lost_fenced);
            cell.stale = cell.stale.map(|stale| stale + seen.stale);
            cell.inversions = cell.inversions.map(|wrong| wrong + seen.inversions);
            cell.broken += u64::from(!seen.broken.is_empty());
            gaps += seen.gap / (SECOND / 1000);
        }
        cell.gap_ms = gaps / seeds.max(1);
        cell
    }

    /// Whether exclusion is promised here.
    pub fn exclusive(&self) -> bool {
        self.trouble.exclusive(self.setup)
    }
}

/// Plays them all, on so many threads. The result does not depend on how many.
pub fn matrix(seeds: u64, threads: usize) -> Vec<Cell> {
    let all: Vec<(Setup, Trouble)> = Setup::ALL
        .into_iter()
        .flat_map(|setup| Trouble::ALL.into_iter().map(move |trouble| (setup, trouble)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((setup, trouble)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(Cell::new(*setup, *trouble, seeds));
        }
        done
    };
    let mut cells: Vec<Cell> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
    });
    cells.sort_by_key(|cell| (cell.setup, cell.trouble));
    cells
}

/// Columns for a terminal.
pub fn table(cells: &[Cell], language: Language) -> String {
    let heads = language.pick(
        [
            "set-up", "trouble", "runs", "holds", "overlaps", "lost", "fenced", "tokens", "gap ms",
            "promised",
        ],
        ["部署", "故障", "运行", "持有", "重叠", "丢失", "检查令牌", "乱序", "空档毫秒", "承诺"],
    );
    let mut out = row(heads.map(str::to_owned));
    for cell in cells {
        out += &row([
            cell.setup.to_string(),
            trouble(cell.trouble, language).to_owned(),
            cell.runs.to_string(),
            cell.holds.to_string(),
            cell.overlaps.to_string(),
            cell.lost_plain.to_string(),
            or_dash(cell.lost_fenced),
            or_dash(cell.inversions),
            cell.gap_ms.to_string(),
            verdict(cell, language).to_owned(),
        ]);
    }
    out
}

/// What the columns of the table are.
pub fn legend(language: Language) -> &'static str {
    language.pick(
        "overlaps: a client acquired the lock while another believed that it held it. lost, fenced: updates that \
         were lost without a fence, and with one. tokens: used twice or out of order. gap: the longest time \
         without a holder while a client waited, on average. promised: a single holder under this trouble.",
        "重叠：一个客户端获得锁时，另一个还以为自己持有锁。丢失、检查令牌：不检查令牌和检查令牌时丢失的更新。乱序：用了两次或顺序不对的令牌。\
         空档：有客户端等待而无人持有锁的最长时间，取平均。承诺：在这种故障下只有一个持有者。",
    )
}

/// A line of the table: two columns of words, seven of numbers, the verdict.
fn row(texts: [String; 10]) -> String {
    const WIDTHS: [usize; 9] = [18, 30, 8, 9, 9, 8, 9, 8, 10];
    let mut line = String::new();
    for (at, (text, width)) in texts.iter().zip(WIDTHS).enumerate() {
        let gap = " ".repeat(width.saturating_sub(columns(text)));
        let (before, after) = if at < 2 { ("", &*gap) } else { (&*gap, "") };
        line += &format!("{before}{text}{after}");
    }
    let [.., last] = &texts;
    format!("{line}  {last}\n")
}

fn or_dash(value: Option<u64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn verdict(cell: &Cell, language: Language) -> &'static str {
    match (cell.broken, cell.exclusive()) {
        (0, true) => language.pick("yes", "有"),
        (0, false) => language.pick("no", "没有"),
        _ => language.pick("BROKEN", "被打破"),
    }
}

/// The document `docs/evidence/simulated.md`.
pub fn markdown(cells: &[Cell]) -> String {
    let runs = cells.first().map_or(0, |cell| cell.runs);
    let mut out = format!(
        "# Records: what the simulator saw\n\n\
         This page shows what each set-up keeps under each kind of fault, in simulated runs. \
         [Evidence](../evidence.md#the-simulator) gives the summary. Generated by `cargo xtask lab` \
         (`leasehold lab matrix --seeds {runs} --markdown`); do not edit.\n\n\
         Each run takes 32 s, with three clients and a ttl of 2 s; faults happen in the first 14 s. \
         Each cell has {runs} seeded runs over the protocol's own machines (`leasehold_proto`, `quorum` and \
         `client`). `redlock` is what Leasehold does on several servers, `single` what it does on one; \
         the other set-ups are there to compare with. ZooKeeper, etcd and SQL are models: one node that keeps \
         its data, with the token and the validity of their recipes.\n\n\
         ![Overlaps by set-up and trouble](../pictures/guarantees-under-faults.svg)\n\n\
         - **overlaps**: how often a client acquired the lock while another believed to hold it, \
         of so many **holds**. Bold where the set-up promises that there is none.\n\
         - **lost**: lost updates of a number behind the lock, without a fence / with one \
         (– where there is no token to check).\n\
         - **tokens**: how often a token was used twice or was not above one held before.\n\
         - **gap**: the longest time without a holder while a client wanted the lock, on average.\n\n"
    );
    let broken: u64 = cells.iter().map(|cell| cell.broken).sum();
    let _ = writeln!(out, "Runs in which a promise was broken: {broken}.\n");
    for trouble in Trouble::ALL {
        let _ = writeln!(out, "## {}\n", capital(trouble.name()));
        out.push_str(
            "| set-up | overlaps | holds | lost | tokens | gap |\n|---|---|---|---|---|---|\n",
        );
        for cell in cells.iter().filter(|cell| cell.trouble == trouble) {
            let overlaps = match cell.exclusive() {
                true => format!("**{}**", cell.overlaps),
                false => cell.overlaps.to_string(),
            };
            let _ = writeln!(
                out,
                "| {} | {overlaps} | {} | {} / {} | {} | {:.1} s |",
                cell.setup,
                cell.holds,
                cell.lost_plain,
                or_dash(cell.lost_fenced),
                or_dash(cell.inversions),
                cell.gap_ms as f64 / 1000.0
            );
        }
        out.push('\n');
    }
    out.push_str("## The set-ups\n\n");
    for setup in Setup::ALL {
        let _ = writeln!(out, "- `{setup}`: {}", setup.about());
    }
    out.push_str(
        "\nA clock that jumps ends leases before their time, so no set-up guarantees one holder then. With \
         five nodes one jump is harmless unless the holder has a bare majority at that moment. \
         Tokens stay unique and in order, and a resource that checks them loses nothing. Those of \
         `single-strict` depend on the node's own clock after it has lost its data: they are in \
         order unless that clock is set back at the same time.\n\n\
         With one node `init` relies on the operator, who declares that no client holds a lock. \
         A holder whose lease is released by force learns of that at its next renewal; until then \
         it does not count as an overlap.\n\n\
         A node that returns with old data, as another process, has lost the leases and tokens that \
         came after its copy. With admission it waits until those leases are over. A node \
         that resumes a snapshot is the same process with the same marker. No client can know that \
         it has lost anything, and no set-up promises one holder then. The check at the \
         resource still protects where tokens follow the clock of the node (`single`, \
         `replicated`, `sql`). Elsewhere tokens may go back with the data, and two holders may \
         even have the same token.\n",
    );
    out
}

/// The overlaps as a picture: set-ups against kinds of trouble.
pub fn picture(cells: &[Cell], language: Language) -> String {
    let title = language.pick("Overlaps by set-up and trouble", "各部署在各种故障下的重叠");
    let head = language
        .pick("Two holders at a time, in 1,000 holds", "每 1,000 次持有中，同时有两个持有者的次数");
    const LEFT: f64 = 222.0;
    const TOP: f64 = 118.0;
    const WIDE: f64 = 68.0;
    const HIGH: f64 = 30.0;
    let (columns, rows) = (Setup::ALL.len() as f64, Trouble::ALL.len() as f64);
    let (width, height) = (LEFT + WIDE * columns + 16.0, TOP + HIGH * rows + 40.0);
    let ink = "#757d87";
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif\" \
         font-size=\"12\" fill=\"{ink}\">\n<title>{title}</title>\n\
         <text x=\"16\" y=\"28\" font-size=\"17\" font-weight=\"600\">{head}</text>\n"
    );
    for (column, setup) in Setup::ALL.into_iter().enumerate() {
        let x = LEFT + WIDE * (column as f64 + 0.4);
        let y = TOP - 8.0;
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y}\" transform=\"rotate(-35 {x:.1} {y})\">{setup}</text>"
        );
    }
    for (row, kind) in Trouble::ALL.into_iter().enumerate() {
        let trouble = trouble(kind, language);
        let y = TOP + HIGH * row as f64;
        let _ = writeln!(out, "<text x=\"16\" y=\"{:.1}\">{trouble}</text>", y + 20.0);
        for (column, setup) in Setup::ALL.into_iter().enumerate() {
            let Some(cell) = cells.iter().find(|one| one.setup == setup && one.trouble == kind)
            else {
                continue;
            };
            let share = cell.overlaps as f64 * 1000.0 / cell.holds.max(1) as f64;
            let (colour, strength) = match cell.overlaps {
                0 => ("#1f9d68", 0.35),
                _ => ("#dc2626", 0.25 + (share / 400.0).min(0.6)),
            };
            let text = match share {
                _ if cell.overlaps == 0 => "0".to_owned(),
                share if share < 0.1 => "<0.1".replace('<', "&lt;"),
                share if share < 10.0 => format!("{share:.1}"),
                share => format!("{share:.0}"),
            };
            let label = if strength > 0.5 { "#fff" } else { ink };
            let x = LEFT + WIDE * column as f64;
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
                 fill=\"{colour}\" fill-opacity=\"{strength:.2}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{label}\">{text}</text>",
                x + 1.5,
                y + 1.5,
                WIDE - 3.0,
                HIGH - 3.0,
                x + WIDE / 2.0,
                y + 20.0
            );
        }
    }
    out + "</svg>\n"
}
