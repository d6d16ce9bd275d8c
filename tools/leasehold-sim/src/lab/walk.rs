//! The walk-through of the articles: a number of nodes, some of them down or restarted empty while
//! a client holds the lock. Does a second client acquire the same lock, and can a client acquire
//! another lock?

use std::time::Duration;

use leasehold_proto::quorum::{
    Attempt, AttemptTerms, Event, Node, NodeReply, Op, ProcessId, Refusal, majority,
};
use leasehold_proto::{AttemptId, ClientId, Now};

use super::text::{Language, columns};

const TTL: Duration = Duration::from_secs(30);
const NOW: Now = Now { steady_ns: 1_000_000_000_000, wall_ns: 1_780_000_000_000_000_000 };

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many nodes there are.
    pub nodes: usize,
    /// So many of those that granted the lock are down, or start again.
    pub away: usize,
    /// They are down: another client gets another lock.
    pub other_lock: bool,
    /// They are down: another client gets the same lock.
    pub down: bool,
    /// They are back, empty, and the holder has the lock on a bare majority: another gets the same lock.
    pub bare: bool,
    /// The same, and the holder has the lock on all nodes.
    pub all: bool,
    /// As `bare`, but nodes that may have forgotten have no vote for a while.
    pub admission: bool,
}

/// The table: 3, 5 and 6 nodes, with one, two and three away.
pub fn walk() -> Vec<Step> {
    let rows = [3, 5, 6].into_iter().flat_map(|nodes| (1..=3).map(move |away| (nodes, away)));
    rows.map(|(nodes, away)| {
        let get = |granted, back, lock| Run::new(nodes, granted).second(away, back, lock);
        let bare = majority(nodes);
        Step {
            nodes,
            away,
            other_lock: get(bare, Back::Down, "other"),
            down: get(bare, Back::Down, "same"),
            bare: get(bare, Back::Empty, "same"),
            all: get(nodes, Back::Empty, "same"),
            admission: get(bare, Back::Waiting, "same"),
        }
    })
    .collect()
}

/// The table for a terminal.
pub fn walked(steps: &[Step], language: Language) -> String {
    let english = [
        "nodes",
        "away",
        "down: same lock",
        "another lock",
        "back, empty: same lock",
        "(held by all)",
        "with admission",
    ];
    let chinese = [
        "节点数",
        "不可用",
        "宕机：同一把锁",
        "另一把锁",
        "清空后重启：同一把锁",
        "（全部授予）",
        "有准入",
    ];
    let heads = language.pick(english, chinese);
    let same = |is: bool| match is {
        true => language.pick("TWO HOLDERS", "两个持有者"),
        false => language.pick("no", "否"),
    };
    let mut out = row(heads, heads);
    for step in steps {
        let (nodes, away) = (step.nodes.to_string(), step.away.to_string());
        let other = match step.other_lock {
            true => language.pick("yes", "是"),
            false => language.pick("no", "否"),
        };
        let cells = [
            &nodes,
            &away,
            same(step.down),
            other,
            same(step.bare),
            same(step.all),
            same(step.admission),
        ];
        out += &row(cells, heads);
    }
    out
}

/// One line of the table; each column is as wide as its head, and the first two stand to the right.
fn row(cells: [&str; 7], heads: [&str; 7]) -> String {
    let mut line = String::new();
    for (at, (cell, head)) in cells.into_iter().zip(heads).enumerate() {
        let gap = " ".repeat(columns(head).max(MOST).saturating_sub(columns(cell)));
        let narrow = " ".repeat(columns(head).saturating_sub(columns(cell)));
        line += &match at {
            0 => format!("{narrow}{cell} "),
            1 => format!("{narrow}{cell} | "),
            3 => format!("{cell}{gap} | "),
            _ => format!("{cell}{gap}  "),
        };
    }
    format!("{}\n", line.trim_end())
}

/// The widest answer.
const MOST: usize = "TWO HOLDERS".len();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Back {
    /// They do not answer.
    Down,
    /// They have forgotten everything, and vote.
    Empty,
    /// They have forgotten everything, and wait to be admitted.
    Waiting,
}

/// Nodes of which the first have granted the lock to a client that goes on holding it.
struct Run {
    nodes: Vec<Node<&'static str>>,
}

impl Run {
    fn new(count: usize, granted: usize) -> Self {
        let nodes = (0..count).map(|number| voting(process(number, 0))).collect();
        let mut run = Self { nodes };
        run.acquire(1, "same", |node| node < granted);
        run
    }

    /// Whether another client gets a lock once so many of those that granted are away.
    fn second(mut self, away: usize, back: Back, lock: &'static str) -> bool {
        for number in 0..away.min(self.nodes.len()) {
            match back {
                Back::Down => {}
                Back::Empty => self.nodes[number] = voting(process(number, 1)),
                Back::Waiting => self.nodes[number] = Node::new(process(number, 1)),
            }
        }
        self.acquire(2, lock, |node| back != Back::Down || node >= away)
    }

    /// Runs an attempt, and says whether it got the lock.
    fn acquire(
        &mut self,
        client: u64,
        lock: &'static str,
        reaches: impl Fn(usize) -> bool,
    ) -> bool {
        let attempt = AttemptId::new(ClientId::from_bits(client), 1, 0);
        let limit = Duration::from_millis(50);
        let terms = AttemptTerms { attempt, nodes: self.nodes.len(), ttl: TTL, limit, seen: 0 };
        let mut attempt = Attempt::acquire(NOW, terms);
        let mut held = false;
        while let Some(request) = attempt.poll_request() {
            let node = &mut self.nodes[request.node];
            let process = node.look().process;
            let reply = match (request.op, reaches(request.node)) {
                // Nothing is given back here: only the decision is looked at.
                (Op::Release { .. }, _) => NodeReply::Unknown,
                (_, false) => NodeReply::Refused(Refusal::Unfit),
                (op, true) => node.handle(NOW, process, &lock, op),
            };
            attempt.handle_reply(NOW, request.node, request.round, reply);
            held |= matches!(attempt.poll_event(), Some(Event::Held { .. }));
        }
        held
    }
}

fn voting(process: ProcessId) -> Node<&'static str> {
    let mut node = Node::new(process);
    let _ = node.propose(process, 0, TTL);
    let _ = node.admit(process, 0, 0);
    node
}

fn process(node: usize, life: u8) -> ProcessId {
    let mut bytes = [0; 20];
    (bytes[0], bytes[1]) = (node as u8, life);
    ProcessId::from_bytes(bytes)
}
