//! `leasehold quorum`: sets up the nodes of a quorum, and shows their state.

use std::io::{self, BufRead, IsTerminal};
use std::time::Duration;

use leasehold::quorum::{Founding, Member, Membership, NodeReport, Outlook, Report};
use serde_json::json;

use crate::advice::Advice;
use crate::cli::{Globals, QuorumCommand, QuorumInitArgs, QuorumStatusArgs};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::lang::{Lang, lang, text};
use crate::live::Live;
use crate::locate::Located;
use crate::output::{self, Voice};
use crate::table::{Cut, fitted};
use crate::{human, locate, sanitize, terminal};

/// The columns of the bar that shows the progress of a wait.
const BAR: usize = 30;

/// The time between two lines about a wait, where no row can be redrawn.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

pub(crate) async fn quorum(
    command: &QuorumCommand,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = locate::store_url(globals.store.as_deref(), &config)?;
    match command {
        QuorumCommand::Init(args) => init(args, &store, voice).await,
        QuorumCommand::Status(args) => status(args, &store).await,
    }
}

/// Sets the nodes up; returns 0 if a majority may vote.
async fn init(args: &QuorumInitArgs, store: &Located, voice: Voice) -> Result<u8, Failure> {
    if !args.yes {
        confirm(args.after_loss)?;
    }
    let founding = if args.after_loss { Founding::AfterLoss } else { Founding::Vouched };
    let live = if voice.quiet { None } else { Live::open() };
    let mut progress = Progress { live, voice, whole: Duration::ZERO, told: None };
    let members = leasehold::quorum::found(&store.url, args.max_ttl, founding, |members| {
        progress.show(members);
    });
    let founded = members.await.map_err(|error| Advice::for_store(store).on(error))?;
    let members = founded.members;
    drop(progress);
    for node in 0..members.nodes.len() {
        voice.note(&members.describe(node));
    }
    founded.warnings.iter().for_each(|warning| voice.warn(warning));
    Ok(told(&members, voice))
}

/// Asks the operator to confirm the statement behind the command.
fn confirm(after_loss: bool) -> Result<(), Failure> {
    let question = if after_loss {
        text!(
            "Tokens start again at the wall clock, above all tokens that the remaining nodes know.",
            "令牌将从当前时间重新开始，大于其余节点所知的全部令牌。"
        )
    } else {
        text!(
            "By this you state that no client holds a lock on these nodes.",
            "这样做表示您确认：没有客户端在这些节点上持有锁。"
        )
    };
    if !io::stdin().is_terminal() || !output::is_live() {
        return Err(Failure::own(question).next("to confirm, add --yes"));
    }
    let go_on = text!("Go on?", "继续吗？");
    output::answer(format_args!("{question} {go_on} [y/N] "))?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    match read.map(|_| line.trim()) {
        Ok("y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::with_code(code::CONFLICT, "nothing was done")),
    }
}

/// How long the longest wait takes, and how much of it has passed: a row of the terminal that is
/// redrawn, or else a line now and then.
struct Progress {
    live: Option<Live>,
    voice: Voice,
    whole: Duration,
    /// What was left when the last line was written.
    told: Option<Duration>,
}

impl Progress {
    fn show(&mut self, members: &Membership) {
        let waits = members.nodes.iter().filter_map(|(_, member)| match member {
            Member::Waiting(left) => Some(*left),
            _ => None,
        });
        let Some(left) = waits.max().filter(|left| !left.is_zero()) else { return };
        self.whole = self.whole.max(left);
        match &mut self.live {
            Some(live) => {
                let bar = bar(self.whole, left);
                let left = human::wait(left);
                let text =
                    text!("until no lease can be left {} {}", "等待所有租约到期 {} {}", bar, left);
                live.show(&text);
            }
            None if self.told.is_none_or(|told| told.saturating_sub(left) >= BETWEEN_LINES) => {
                self.told = Some(left);
                self.voice.note(&waiting(members, left));
            }
            None => {}
        }
    }
}

/// Names the nodes that wait, and says for how long.
fn waiting(members: &Membership, left: Duration) -> String {
    let waits = |(place, member): &(String, Member)| {
        matches!(member, Member::Waiting(_)).then(|| place.clone())
    };
    let places: Vec<String> = members.nodes.iter().filter_map(waits).collect();
    text!(
        "waiting until no lease can be left, another {}; until then these nodes have no vote: {}",
        "正在等待所有租约到期，还要 {}；在此之前这些节点不能投票：{}",
        human::wait(left),
        places.join(", ")
    )
}

fn bar(whole: Duration, left: Duration) -> String {
    let open = (BAR as f64 * left.as_secs_f64() / whole.as_secs_f64().max(0.001)).ceil() as usize;
    let open = open.min(BAR);
    format!("[{}{}]", "#".repeat(BAR - open), "-".repeat(open))
}

/// Prints what is known of each node; returns 0 if locks can be acquired.
async fn status(args: &QuorumStatusArgs, store: &Located) -> Result<u8, Failure> {
    let report = leasehold::quorum::report(&store.url).await;
    let report = report.map_err(|error| Advice::for_store(store).on(error))?;
    if args.json {
        output::answer(format_args!("{}\n", sanitize::json(&object(&report))))?;
    } else {
        output::answer(table(&report, terminal::width(io::stdout())))?;
    }
    let voice = Voice { quiet: args.json, verbose: false };
    for (number, node) in report.nodes.iter().enumerate() {
        match &node.fitness.refusal {
            Some(refusal) => voice.warn(&refusal.to_string()),
            None if matches!(node.member, Member::Admitted(_)) => {}
            // Print what to do once, for all of them.
            None if report.members.outlook == Outlook::NotSetUp => {}
            None => voice.note(&report.members.describe(number)),
        }
        node.fitness.warnings.iter().for_each(|warning| voice.warn(warning));
    }
    let members = &report.members;
    let other = members.other_max_ttl(report.named_max_ttl);
    other.iter().chain(&members.unequal_max_ttl()).for_each(|warning| voice.warn(warning));
    let unfit = |node: &NodeReport| {
        node.fitness.refusal.is_some() || matches!(node.member, Member::Twin(_))
    };
    let told = told(&report.members, voice);
    Ok(if report.nodes.iter().any(unfit) { code::UNAVAILABLE } else { told })
}

/// Prints what to do; returns 69 while locks cannot be acquired.
fn told(members: &Membership, voice: Voice) -> u8 {
    match members.advice() {
        None => 0,
        Some(advice) => {
            voice.warn(&advice);
            code::UNAVAILABLE
        }
    }
}

fn state(node: &NodeReport, outlook: Outlook) -> &'static str {
    match node.member {
        _ if node.fitness.refusal.is_some() => "unfit",
        Member::Waiting(_) if outlook == Outlook::NotSetUp => "not set up",
        Member::Admitted(_) => "votes",
        Member::Waiting(_) => "waits",
        Member::Twin(_) => "twin",
        Member::Unknown => "silent",
    }
}

/// Returns the state as a word in the language of this process.
fn state_shown(state: &'static str) -> String {
    match (lang(), state) {
        (Lang::English, _) => state,
        (_, "unfit") => "不能参加",
        (_, "not set up") => "未初始化",
        (_, "votes") => "可以投票",
        (_, "waits") => "等待中",
        (_, "twin") => "重复",
        (_, "silent") => "没有应答",
        _ => state,
    }
    .to_owned()
}

fn table(report: &Report, width: Option<usize>) -> String {
    let head = match lang() {
        Lang::English => ["NODE", "STATE", "MAX TTL", "CLOCK", "HIGH", "PROCESS"],
        Lang::Chinese => ["节点", "状态", "最长 TTL", "时钟", "最大令牌", "进程"],
    };
    let head = head.map(str::to_owned);
    let mut rows = vec![head];
    for node in &report.nodes {
        let dash = || "-".to_owned();
        // Not the rest of the wait: each client counts for itself, and this one has just begun.
        let state = state_shown(state(node, report.members.outlook));
        let clock = node.fitness.clock_ahead_ms.map(|ms| text!("{:+} ms", "{:+} 毫秒", ms));
        rows.push([
            node.place.clone(),
            state,
            node.max_ttl.map_or_else(dash, human::span),
            clock.unwrap_or_else(dash),
            node.high.map_or_else(dash, |high| high.to_string()),
            node.process.map_or_else(dash, |process| process.to_string()),
        ]);
    }
    fitted(&rows, [Cut::End, Cut::Never, Cut::Never, Cut::Never, Cut::Never, Cut::End], width)
}

fn object(report: &Report) -> serde_json::Value {
    let outlook = match report.members.outlook {
        Outlook::Open => "open",
        Outlook::Later(_) => "later",
        Outlook::Unreachable => "unreachable",
        Outlook::NotSetUp => "not_set_up",
        Outlook::Forgotten => "forgotten",
    };
    let ms = |time: Duration| time.as_millis() as u64;
    let node = |node: &NodeReport| {
        let (waits, twin) = match node.member {
            Member::Waiting(left) => (Some(ms(left)), None),
            Member::Twin(of) => (None, report.nodes.get(of).map(|node| node.place.as_str())),
            _ => (None, None),
        };
        json!({
            "node": node.place,
            "state": state(node, report.members.outlook),
            "waits_ms": waits,
            "twin_of": twin,
            "process": node.process.map(|process| process.to_string()),
            "max_ttl_ms": node.max_ttl.map(ms),
            "clock_ahead_ms": node.fitness.clock_ahead_ms,
            "high": node.high,
            "refusal": node.fitness.refusal.as_ref().map(ToString::to_string),
            "warnings": node.fitness.warnings,
        })
    };
    json!({
        "outlook": outlook,
        "advice": report.members.advice(),
        "nodes": report.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_as_the_wait_goes_on() {
        let seconds = Duration::from_secs;
        assert_eq!(bar(seconds(60), seconds(60)), format!("[{}]", "-".repeat(BAR)));
        assert_eq!(bar(seconds(60), seconds(30)).matches('#').count(), BAR / 2);
        assert_eq!(bar(seconds(60), Duration::ZERO), format!("[{}]", "#".repeat(BAR)));
        assert_eq!(bar(Duration::ZERO, Duration::ZERO).len(), BAR + 2);
    }
}
