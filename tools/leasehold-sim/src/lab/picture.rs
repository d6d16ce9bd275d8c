//! Draws a story as SVG: clients and nodes as lanes, leases as bars, the violation marked.

use std::fmt::Write;

use super::signs::{Row, Sign};
use super::tale::Tale;
use super::text::{Language, capital, columns, wrap};
use super::words::{node, person};
use crate::simulator::{ClientChange, SECOND, What};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 880.0;
const LANE: f64 = 40.0;
const BAR: f64 = 22.0;
/// In the middle between black and white: readable on both.
const INK: &str = "#757d87";
const ALARM: &str = "#dc2626";
const COLOURS: [&str; 5] = ["#3b82f6", "#e07b1a", "#1f9d68", "#a35bd6", "#0e97a5"];
/// The width of a column of text in the widest of the fonts, in pixels: of a bold title, and of the rest.
const TITLE_COLUMN: f64 = 11.0;
const COLUMN: f64 = 8.4;
const STOPPED: &str = "fill=\"url(#stopped)\" fill-opacity=\"0.8\"";

/// A picture that is being drawn: where things are, and what is there by now.
struct Picture<'a> {
    tale: &'a Tale,
    language: Language,
    /// Below the title and the legend.
    top: f64,
    end: u64,
    out: String,
}

/// The whole picture.
pub fn draw(tale: &Tale, language: Language) -> String {
    let title = wrap(&title(tale, language), ((WIDTH - 32.0) / TITLE_COLUMN) as usize);
    let legend = wrap(legend(tale, language), ((WIDTH - 32.0) / COLUMN) as usize);
    let top = 34.0 + 23.0 * title.len() as f64 + 19.0 * legend.len() as f64 + 18.0;
    let mut picture = Picture { tale, language, top, end: shown_end(tale), out: String::new() };
    picture.head(&title, &legend);
    picture.axis();
    picture.lanes();
    picture.waits();
    picture.asks();
    picture.overlaps();
    picture.beliefs();
    picture.leases();
    picture.stops();
    picture.tokens();
    picture.signs();
    picture.out + "</svg>\n"
}

/// The story's sentence, and on which set-up it was played.
fn title(tale: &Tale, language: Language) -> String {
    let about = tale.story.about.in_language(language);
    let setup = tale.plan.setup;
    language.pick(format!("{} ({setup})", capital(about)), format!("{about}（{setup}）"))
}

fn legend(tale: &Tale, language: Language) -> &'static str {
    match tale.plan.setup.tokens() {
        true => language.pick(
            "bar of a client: believes that it holds the lock, with this token · line: waits · tick: request · \
             hatched: paused · bar of a node: whose lease it has · dot: write accepted · cross: write refused",
            "客户端的色条：以为自己持有锁（数字为令牌）· 横线：等待 · 短竖线：请求 · 斜纹：停顿 · 节点的色条：它上面是谁的租约 · \
             圆点：写入被接受 · 叉：写入被拒绝",
        ),
        false => language.pick(
            "bar of a client: believes that it holds the lock · line: waits · tick: request · hatched: paused · \
             bar of a node: whose lease it has · dot: write accepted · cross: write refused",
            "客户端的色条：以为自己持有锁 · 横线：等待 · 短竖线：请求 · 斜纹：停顿 · 节点的色条：它上面是谁的租约 · \
             圆点：写入被接受 · 叉：写入被拒绝",
        ),
    }
}

/// Nothing is shown long after the last thing has happened.
fn shown_end(tale: &Tale) -> u64 {
    let last = tale
        .entries
        .iter()
        .rev()
        .find(|entry| !matches!(entry.what, What::Asks(_) | What::Denied(_)));
    let waits = tale.entries.last().map_or(0, |entry| entry.time);
    let until = tale.beliefs().into_iter().map(|belief| belief.2).max().unwrap_or(0);
    let last = last.map_or(0, |entry| entry.time).max(until);
    let vain = waits > last + 5 * SECOND;
    let shown = if vain { waits } else { last + last / 6 };
    shown.clamp(SECOND / 10, tale.plan.end)
}

impl Picture<'_> {
    fn clients(&self) -> usize {
        self.tale.plan.clients.len()
    }

    fn nodes(&self) -> usize {
        self.tale.plan.setup.nodes()
    }

    /// The names of the lanes below the nodes: the resource as each kind of resource sees it.
    fn resources(&self) -> Vec<&'static str> {
        let mut names = vec![self.language.pick("resource", "资源")];
        if self.tale.plan.setup.tokens() {
            names.push(self.language.pick("with a fence", "检查令牌"));
        }
        if self.tale.plan.by_value {
            names.push(self.language.pick("by random value", "检查随机值"));
        }
        names
    }

    fn lanes_count(&self) -> usize {
        self.clients() + self.nodes() + self.resources().len()
    }

    fn bottom(&self) -> f64 {
        self.top + LANE * self.lanes_count() as f64
    }

    fn x(&self, time: u64) -> f64 {
        LEFT + (RIGHT - LEFT) * (time.min(self.end) as f64 / self.end as f64)
    }

    fn y(&self, lane: usize) -> f64 {
        self.top + LANE * lane as f64 + (LANE - BAR) / 2.0
    }

    fn head(&mut self, title: &[String], legend: &[String]) {
        let height = self.bottom() + 32.0;
        let _ = write!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"system-ui, 'Helvetica Neue', 'DejaVu Sans', Arial, 'Noto Sans CJK SC', \
             'PingFang SC', 'Microsoft YaHei', sans-serif\" font-size=\"14\" fill=\"{INK}\">\n\
             <title>{}</title>\n\
             <defs><pattern id=\"stopped\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\" \
             fill-opacity=\"0.4\"/><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" \
             stroke=\"{INK}\" stroke-width=\"2\"/></pattern></defs>\n",
            self.tale.story.name
        );
        let mut y = 28.0;
        for line in title {
            let _ = writeln!(
                self.out,
                "<text x=\"16\" y=\"{y}\" font-size=\"17\" font-weight=\"600\">{line}</text>"
            );
            y += 23.0;
        }
        for line in legend {
            let _ = writeln!(self.out, "<text x=\"16\" y=\"{y}\">{line}</text>");
            y += 19.0;
        }
    }

    fn axis(&mut self) {
        let seconds = self.end as f64 / SECOND as f64;
        let step = [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0]
            .into_iter()
            .find(|step| seconds / step <= 12.0)
            .unwrap_or(600.0);
        let (top, bottom) = (self.top, self.bottom());
        let unit = self.language.pick("s", "秒");
        let mut at = 0.0;
        while at <= seconds {
            let place = self.x((at * SECOND as f64) as u64);
            let label = if step < 1.0 { format!("{at:.2}") } else { format!("{at:.0}") };
            let _ = writeln!(
                self.out,
                "<line x1=\"{place:.1}\" y1=\"{top}\" x2=\"{place:.1}\" y2=\"{bottom:.1}\" \
                 stroke=\"{INK}\" stroke-opacity=\"0.15\"/>\
                 <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"13\">{label} {unit}\
                 </text>",
                bottom + 19.0
            );
            at += step;
        }
    }

    fn lanes(&mut self) {
        let clients = (0..self.clients()).map(|client| person(client, self.language));
        let nodes = (0..self.nodes()).map(|number| node(number, self.language));
        let resources = self.resources().into_iter().map(str::to_owned);
        let names: Vec<String> = clients.chain(nodes).chain(resources).collect();
        for (lane, name) in names.into_iter().enumerate() {
            let middle = self.y(lane) + BAR / 2.0;
            let _ = writeln!(
                self.out,
                "<text x=\"16\" y=\"{:.1}\">{name}</text>\
                 <line x1=\"{LEFT}\" y1=\"{middle:.1}\" x2=\"{RIGHT}\" y2=\"{middle:.1}\" \
                 stroke=\"{INK}\" stroke-opacity=\"0.3\"/>",
                middle + 5.0
            );
        }
    }

    /// When two clients hold the lock: times that touch are one.
    fn overlaps(&mut self) {
        let all = self.tale.beliefs();
        let mut times: Vec<(u64, u64)> = Vec::new();
        for (index, one) in all.iter().enumerate() {
            for other in all.iter().skip(index + 1).filter(|other| other.0 != one.0) {
                let (from, until) = (one.1.max(other.1), one.2.min(other.2));
                if from < until {
                    times.push((from, until));
                }
            }
        }
        times.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, until) in times {
            match joined.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => joined.push((from, until)),
            }
        }
        let label = self.language.pick("two holders", "两个持有者");
        let mut row = Row::default();
        for (from, until) in joined {
            let (x, wide) = (self.x(from), (self.x(until) - self.x(from)).max(2.0));
            let _ = writeln!(
                self.out,
                "<rect x=\"{x:.1}\" y=\"{}\" width=\"{wide:.1}\" height=\"{:.1}\" \
                 fill=\"{ALARM}\" fill-opacity=\"0.18\"/>",
                self.top,
                LANE * self.clients() as f64
            );
            let half = columns(label) as f64 * COLUMN / 2.0;
            let middle = (x + wide / 2.0).clamp(LEFT + half, RIGHT - half);
            if row.takes(middle - half, middle + half) {
                let _ = writeln!(
                    self.out,
                    "<text x=\"{middle:.1}\" y=\"{:.1}\" fill=\"{ALARM}\" font-weight=\"600\" \
                     text-anchor=\"middle\">{label}</text>",
                    self.top - 5.0
                );
            }
        }
    }

    /// The bars of the clients that believe that they hold the lock.
    fn beliefs(&mut self) {
        for (client, from, until, _) in self.tale.beliefs() {
            let look = format!("fill=\"{}\" rx=\"3\"", colour(client));
            let (from, until, y) = (self.x(from), self.x(until), self.y(client));
            self.bar((from, until), y, &look);
        }
    }

    /// The holders' tokens, each on its bar if that has room.
    fn tokens(&mut self) {
        for (client, from, until, token) in self.tale.beliefs() {
            let (from, until) = (self.x(from), self.x(until));
            let Some(token) = token.filter(|_| until - from > 28.0) else { continue };
            let (y, colour) = (self.y(client), colour(client));
            let _ = writeln!(
                self.out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"24\" height=\"{:.1}\" rx=\"3\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#fff\" font-weight=\"600\">{token}</text>",
                from,
                y,
                BAR,
                from + 3.0,
                y + BAR / 2.0 + 5.0
            );
        }
    }

    /// From when to when each client wants the lock without having it.
    fn waits(&mut self) {
        let mut since = vec![None; self.clients()];
        let mut lines = Vec::new();
        for entry in &self.tale.entries {
            match entry.what {
                What::Asks(client) => since[client] = since[client].or(Some(entry.time)),
                What::Holds(client, _) | What::Dies(client) => {
                    lines.extend(since[client].take().map(|from| (client, from, entry.time)));
                }
                _ => {}
            }
        }
        let open = since.into_iter().enumerate();
        lines.extend(open.filter_map(|(client, from)| Some((client, from?, self.end))));
        for (client, from, until) in lines {
            let middle = self.y(client) + BAR / 2.0;
            let _ = writeln!(
                self.out,
                "<line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" \
                 stroke=\"{}\" stroke-width=\"3\"/>",
                self.x(from),
                self.x(until),
                colour(client)
            );
        }
    }

    /// A tick for each request.
    fn asks(&mut self) {
        for entry in &self.tale.entries {
            let (What::Asks(client) | What::Client(client, ClientChange::Repeats)) = entry.what
            else {
                continue;
            };
            let (x, y) = (self.x(entry.time), self.y(client));
            let _ = writeln!(
                self.out,
                "<line class=\"ask\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{}\" \
                 stroke-width=\"1.5\"/>",
                y + 3.0,
                y + BAR - 3.0,
                colour(client)
            );
        }
    }

    /// The bars on the nodes.
    fn leases(&mut self) {
        for number in 0..self.nodes() {
            let mut open: Option<(usize, u64)> = None;
            let changes = self.tale.entries.iter().filter_map(|entry| match entry.what {
                What::Lease(of, owner) if of == number => Some((entry.time, owner)),
                _ => None,
            });
            for (time, owner) in changes.chain([(self.end, None)]) {
                if let Some((client, from)) = open.take() {
                    let look =
                        format!("fill=\"{}\" fill-opacity=\"0.55\" rx=\"3\"", colour(client));
                    let (from, until) = (self.x(from), self.x(time));
                    let y = self.y(self.clients() + number);
                    self.bar((from, until), y, &look);
                }
                open = owner.map(|client| (client, time));
            }
        }
    }

    /// When each client was paused.
    fn stops(&mut self) {
        let mut stopped = vec![None; self.clients()];
        let mut times = Vec::new();
        for entry in &self.tale.entries {
            match entry.what {
                What::Stops(client) => stopped[client] = Some(entry.time),
                What::GoesOn(client) => {
                    times.extend(stopped[client].take().map(|from| (client, from, entry.time)));
                }
                _ => {}
            }
        }
        let open = stopped.into_iter().enumerate();
        times.extend(open.filter_map(|(client, from)| Some((client, from?, self.end))));
        for (client, from, until) in times {
            let (from, until, y) = (self.x(from), self.x(until), self.y(client));
            self.bar((from, until), y, STOPPED);
        }
    }

    /// What happens at a moment: deaths, faults of nodes, writes.
    fn signs(&mut self) {
        let (clients, nodes) = (self.clients(), self.nodes());
        let tokens = self.tale.plan.setup.tokens();
        let by_value = clients + nodes + 1 + usize::from(tokens);
        let mut rows = vec![Row::default(); self.lanes_count()];
        let mut refusals = Vec::new();
        for entry in &self.tale.entries {
            let x = self.x(entry.time);
            let mut sign = |lane: usize, sign: Sign, colour: &str| {
                let at = rows[lane].place(x);
                sign.draw(&mut self.out, (at, self.top + LANE * (lane as f64 + 0.5)), colour);
                at
            };
            let written = |accepted: bool, client: usize| match accepted {
                true => (Sign::Dot, colour(client)),
                false => (Sign::Cross, ALARM),
            };
            match entry.what {
                What::Dies(client) => {
                    sign(client, Sign::Cross, ALARM);
                }
                What::Node(node, _) => {
                    sign(clients + node, Sign::Bolt, ALARM);
                }
                What::ByValue(client, accepted) => {
                    let (look, colour) = written(accepted, client);
                    let at = sign(by_value, look, colour);
                    if !accepted {
                        let why = ("by the value", "因随机值拒绝");
                        refusals.push((by_value, at, why));
                    }
                }
                What::Writes(client, plain, fenced) => {
                    let (look, colour) = written(plain, client);
                    sign(clients + nodes, look, colour);
                    if tokens {
                        let (look, colour) = written(fenced, client);
                        let at = sign(clients + nodes + 1, look, colour);
                        if !fenced {
                            let why = ("by the fence", "因令牌拒绝");
                            refusals.push((clients + nodes + 1, at, why));
                        }
                    }
                }
                _ => {}
            }
        }
        for (lane, at, (english, chinese)) in refusals {
            let label = self.language.pick(english, chinese);
            let wide = columns(label) as f64 * COLUMN;
            let Some(x) = rows[lane].beside(at, wide, (LEFT, WIDTH - 8.0)) else { continue };
            let _ = writeln!(
                self.out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{ALARM}\">{label}</text>",
                self.top + LANE * (lane as f64 + 0.5) + 5.0
            );
        }
    }

    fn bar(&mut self, (from, until): (f64, f64), y: f64, look: &str) {
        let wide = (until - from).max(1.5);
        let _ = writeln!(
            self.out,
            "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" {look}/>"
        );
    }
}

fn colour(client: usize) -> &'static str {
    COLOURS[client % COLOURS.len()]
}
