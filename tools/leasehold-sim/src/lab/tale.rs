//! A story that has been played: its timeline, and what came of it in a sentence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Story;
use super::base::NO_TTL;
use super::text::{Language, capital};
use super::words::{about, client_change, listed, node, node_change, person};
use crate::simulator::{Entry, Plan, SECOND, Seen, Waiting, What};

/// The first token that is shown: the articles' holder has 33, the next one 34.
const FIRST_TOKEN: usize = 33;

/// A story that has been played.
#[derive(Clone, Debug)]
pub struct Tale {
    /// Which.
    pub story: &'static Story,
    /// How it was played.
    pub plan: Plan,
    /// What was seen.
    pub seen: Seen,
    /// What happened, in order of time.
    pub entries: Vec<Entry>,
    tokens: BTreeMap<u64, usize>,
}

impl Tale {
    pub(super) fn new(story: &'static Story, plan: Plan, seen: Seen, entries: Vec<Entry>) -> Self {
        let held = entries.iter().filter_map(|entry| match entry.what {
            What::Holds(_, Some(token)) => Some(token),
            _ => None,
        });
        // In the order of their size, whatever the order in which they were had.
        let held: BTreeSet<u64> = held.collect();
        let tokens = held.into_iter().zip(FIRST_TOKEN..).collect();
        Self { story, plan, seen, entries, tokens }
    }

    /// A token as it is shown: small, in the same order.
    pub fn token(&self, token: Option<u64>) -> Option<usize> {
        token.and_then(|token| self.tokens.get(&token)).copied()
    }

    /// Whether it went wrong, as its story says.
    pub fn went_wrong(&self) -> bool {
        (self.story.goes_wrong)(self)
    }

    /// From when to when each client took itself for the holder, and its token.
    pub fn beliefs(&self) -> Vec<(usize, u64, u64, Option<usize>)> {
        let mut open: BTreeMap<usize, (u64, u64, Option<usize>)> = BTreeMap::new();
        let mut all = Vec::new();
        for Entry { time, what } in &self.entries {
            match what {
                What::Holds(client, token) => {
                    open.insert(*client, (*time, u64::MAX, self.token(*token)));
                }
                What::ValidUntil(client, until) => {
                    if let Some(one) = open.get_mut(client) {
                        one.1 = *until;
                    }
                }
                What::Releases(client)
                | What::Loses(client)
                | What::NotValid(client)
                | What::Dies(client) => {
                    if let Some((from, until, token)) = open.remove(client) {
                        all.push((*client, from, until.min(*time), token));
                    }
                }
                _ => {}
            }
        }
        let end = self.plan.end;
        all.extend(
            open.into_iter()
                .map(|(client, (from, until, token))| (client, from, until.min(end), token)),
        );
        all
    }

    /// When a client acquired the lock while another held it, and which two: the earlier one first.
    pub fn overlaps(&self) -> Vec<(u64, (usize, usize))> {
        let overlap = |entry: &Entry| match entry.what {
            What::Overlap(first, second) => Some((entry.time, (first, second))),
            _ => None,
        };
        self.entries.iter().filter_map(overlap).collect()
    }

    /// The clients that never held the lock, and did not die either.
    pub fn in_vain(&self) -> Vec<usize> {
        let is = |client: usize, what: &What| match what {
            What::Holds(of, _) | What::Dies(of) => *of == client,
            _ => false,
        };
        let never = |client: &usize| !self.entries.iter().any(|entry| is(*client, &entry.what));
        (0..self.plan.clients.len()).filter(never).collect()
    }

    /// What happened when, a line for each thing.
    pub fn lines(&self, language: Language) -> Vec<(u64, String)> {
        let mut lines: Vec<(u64, String)> = Vec::new();
        let (mut waits, mut listens) = (BTreeMap::new(), BTreeSet::new());
        for Entry { time, what } in &self.entries {
            match what {
                What::Asks(client) | What::Denied(client) => {
                    let denied = matches!(what, What::Denied(_));
                    // Only the first of either is reported.
                    let before = waits.get(client).copied();
                    if before == Some(true) || before == Some(denied) {
                        continue;
                    }
                    waits.insert(*client, denied);
                }
                What::Holds(client, _) => {
                    waits.remove(client);
                }
                // The first time is reported.
                What::Listens(client) if !listens.insert(*client) => continue,
                _ => {}
            }
            lines.extend(self.line(what, language).map(|line| (*time, line)));
        }
        for (client, _, until, _) in self.beliefs() {
            let ended = self.entries.iter().any(|entry| {
                entry.time == until
                    && matches!(entry.what, What::Releases(of) | What::Loses(of) | What::Dies(of)
                        | What::NotValid(of) if of == client)
            });
            if !ended && until < self.plan.end {
                let client = person(client, language);
                lines.push((
                    until,
                    language.pick(
                        format!("{client}'s lease has ended by its own clock"),
                        format!("按{client} 自己的时钟，它的租约已结束"),
                    ),
                ));
            }
        }
        lines.sort_by_key(|(time, _)| *time);
        lines
    }

    /// The timeline as text.
    pub fn timeline(&self, language: Language) -> String {
        let mut out = String::new();
        for (time, text) in self.lines(language) {
            let _ = writeln!(out, "{}{text}", stamp(time, language));
        }
        out
    }

    /// One thing that happened; `None` for what is not told.
    fn line(&self, what: &What, language: Language) -> Option<String> {
        let says = |client: &usize, english: &str, chinese: &str| {
            let client = person(*client, language);
            Some(language.pick(format!("{client} {english}"), format!("{client} {chinese}")))
        };
        match what {
            What::Asks(client) => says(client, "requests the lock", "请求锁"),
            What::Denied(client) => says(client, "waits", "等待"),
            What::Holds(client, token) => match self.token(*token) {
                Some(token) => says(
                    client,
                    &format!("holds the lock, token {token}"),
                    &format!("持有锁，令牌 {token}"),
                ),
                None => says(client, "holds the lock", "持有锁"),
            },
            What::Releases(client) => says(client, "releases the lock", "释放锁"),
            What::Loses(client) => says(
                client,
                "is notified that it loses the lock, and stops",
                "收到丢锁通知，停止工作",
            ),
            What::NotValid(client) => says(
                client,
                "checks its clock: the lock is no longer valid",
                "查看自己的时钟：锁已失效",
            ),
            What::Writes(client, plain, fenced) => {
                let (english, chinese) = self.write(*plain, *fenced);
                says(client, english, chinese)
            }
            What::Claims(client) => says(
                client,
                "registers its random value with the resource",
                "在资源处登记自己的随机值",
            ),
            What::ByValue(client, true) => says(
                client,
                "writes: the random value is the registered one, accepted",
                "写入：随机值与登记的相同，接受",
            ),
            What::ByValue(client, false) => says(
                client,
                "writes: the random value is another one, refused",
                "写入：随机值与登记的不同，拒绝",
            ),
            What::Stops(client) => says(client, "is paused", "停顿"),
            What::GoesOn(client) => says(client, "continues", "恢复运行"),
            What::Dies(client) => says(client, "dies", "崩溃"),
            What::Listens(client) => says(client, "listens for a release", "开始监听释放通知"),
            What::Tells(number, many) => {
                let (node, many) = (node(*number, language), *many);
                Some(language.pick(
                    match many {
                        0 => format!("  {node}: the lock is free, and no client waits"),
                        1 => format!("  {node}: the lock is free, one waiter is notified"),
                        _ => format!("  {node}: the lock is free, {many} waiters are notified"),
                    },
                    match many {
                        0 => format!("  {node}：锁已空闲，没有等待者"),
                        _ => format!("  {node}：锁已空闲，通知 {many} 个等待者"),
                    },
                ))
            }
            What::Node(number, change) => {
                let (node, change) = (node(*number, language), node_change(*change, language));
                Some(language.pick(format!("  {node}: {change}"), format!("  {node}：{change}")))
            }
            What::Client(client, change) => {
                let (client, change) =
                    (person(*client, language), client_change(*change, language));
                Some(language.pick(format!("{client} {change}"), format!("{client} {change}")))
            }
            What::Overlap(first, second) => {
                let (first, second) = (person(*first, language), person(*second, language));
                Some(language.pick(
                    format!("!! {first} and {second} both believe that they hold the lock"),
                    format!("!! {first} 和{second} 都以为自己持有锁"),
                ))
            }
            What::Lease(..) | What::ValidUntil(..) => None,
        }
    }

    /// What became of a write.
    fn write(&self, plain: bool, fenced: bool) -> (&'static str, &'static str) {
        match (self.plan.setup.tokens(), plain, fenced) {
            (false, true, _) => ("writes: accepted", "写入：接受"),
            (false, false, _) => ("writes: refused", "写入：拒绝"),
            (true, true, true) => {
                ("writes: accepted, by the fence too", "写入：接受，令牌检查也通过")
            }
            (true, true, false) => (
                "writes: accepted without a fence, refused by the fence",
                "写入：不检查令牌时接受，检查令牌时拒绝",
            ),
            (true, false, _) => ("writes: refused", "写入：拒绝"),
        }
    }

    /// Where it was played: on what, and with which ttl.
    pub fn place(&self, language: Language) -> String {
        let setup = self.plan.setup;
        let by_hand = self.story.by_hand.iter().find(|(one, _)| *one == setup);
        let about =
            by_hand.map_or_else(|| about(setup, language), |(_, text)| text.in_language(language));
        let ttl = self.plan.ttl.as_secs();
        match ttl == NO_TTL {
            true => language.pick(
                format!("on {setup}: {about}; no ttl"),
                format!("部署 {setup}：{about}；没有 ttl"),
            ),
            false => language.pick(
                format!("on {setup}: {about}; ttl {ttl} s"),
                format!("部署 {setup}：{about}；ttl {ttl} 秒"),
            ),
        }
    }

    /// What happened, in a sentence, and what prevented it or would have, in another.
    pub fn moral(&self, language: Language) -> String {
        let happened = capital(&self.happened(language));
        let why = if self.went_wrong() { self.story.shown } else { self.story.spared };
        let gap = language.pick(" ", "");
        format!("{happened}{gap}{}", why.in_language(language))
    }

    fn happened(&self, language: Language) -> String {
        let names: Vec<String> =
            self.in_vain().into_iter().map(|client| person(client, language)).collect();
        let (names, vain) = (listed(&names, language), !names.is_empty());
        let lost = self.lost(language);
        match self.overlaps().first() {
            Some((time, (first, second))) => {
                let time = *time as f64 / SECOND as f64;
                let (first, second) = (person(*first, language), person(*second, language));
                let english = match vain {
                    true => format!("; {names} waited in vain"),
                    false => String::new(),
                };
                let chinese = match vain {
                    true => format!("；{names} 始终没有等到"),
                    false => String::new(),
                };
                language.pick(
                    format!(
                        "at {time:.1} s {second} acquired the lock while {first} still believed that it \
                         held it{lost}{english}."
                    ),
                    format!(
                        "{time:.1} 秒时，{second} 获得锁，而{first} 还以为自己持有锁{lost}{chinese}。"
                    ),
                )
            }
            None if vain => language.pick(
                format!("{names} waited in vain until the end{lost}."),
                format!("{names} 直到最后也没有等到锁{lost}。"),
            ),
            None if !lost.is_empty() => language.pick(
                format!("a write came after its lease had ended{lost}."),
                format!("一次写入在租约结束之后才到{lost}。"),
            ),
            None if self.plan.waiting != Waiting::Asks && self.seen.gap < SECOND => {
                let (asks, holds) = (self.seen.asks, self.seen.holds);
                language.pick(
                    format!(
                        "there were never two holders; the clients asked {asks} times for {holds} holds."
                    ),
                    format!("始终没有两个持有者；客户端请求了 {asks} 次，持有了 {holds} 次。"),
                )
            }
            None if self.seen.gap < SECOND / 20 => language.pick(
                "there were never two holders; each waiter got the lock as soon as it was free."
                    .to_owned(),
                "始终没有两个持有者；锁一空闲，等待者就获得了它。".to_owned(),
            ),
            None => {
                let gap = self.seen.gap as f64 / SECOND as f64;
                language.pick(
                    format!(
                        "there were never two holders; the longest time that a client waited while no client \
                         held the lock was {gap:.1} s."
                    ),
                    format!(
                        "始终没有两个持有者；有客户端等待而无人持有锁的时间，最长 {gap:.1} 秒。"
                    ),
                )
            }
        }
    }

    /// Which updates were lost, as the end of a sentence.
    fn lost(&self, language: Language) -> String {
        let (lost, refused) = (self.seen.lost_plain, self.seen.refused);
        let updates = match lost {
            0 => return String::new(),
            1 => language.pick("one update was".to_owned(), "丢失了 1 次更新".to_owned()),
            _ => language.pick(format!("{lost} updates were"), format!("丢失了 {lost} 次更新")),
        };
        let writes = match refused {
            1 => language.pick("one write".to_owned(), "1 次写入".to_owned()),
            _ => language.pick(format!("{refused} writes"), format!("{refused} 次写入")),
        };
        match (self.plan.setup.tokens(), self.plan.by_value) {
            (false, false) => language.pick(format!(", and {updates} lost"), format!("，{updates}")),
            (false, true) => language.pick(
                format!(", and without any check {updates} lost"),
                format!("，不作检查时{updates}"),
            ),
            (true, _) => language.pick(
                format!(
                    ", and without a fence {updates} lost; the fence refused {writes}, and none was lost"
                ),
                format!("，不检查令牌时{updates}；检查令牌时拒绝了 {writes}，没有丢失"),
            ),
        }
    }
}

/// The time at the beginning of a line.
pub fn stamp(time: u64, language: Language) -> String {
    let seconds = time as f64 / SECOND as f64;
    format!("{seconds:>9.3} {}  ", language.pick("s", "秒"))
}
