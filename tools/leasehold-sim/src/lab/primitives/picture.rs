//! Draws a story of a read-write lock or a semaphore as SVG: who holds and waits when, and what the server has.

use std::fmt::Write;

use super::super::signs::{Row, Sign};
use super::super::text::{Language, capital, columns, wrap};
use super::PrimitiveTale;
use super::store::Want;
use super::world::{Event, State};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 866.0;
const LANE: f64 = 38.0;
const BAR: f64 = 22.0;
const INK: &str = "#757d87";
const ALARM: &str = "#dc2626";
const GOOD: &str = "#1f9d68";
const COLOURS: [&str; 5] = ["#3b82f6", "#e07b1a", "#1f9d68", "#a35bd6", "#0e97a5"];
/// The widths of a column of text: of the title, and of the rest.
const TITLE_COLUMN: f64 = 11.0;
const COLUMN: f64 = 8.4;

/// How far apart ticks are at least.
const TICK: f64 = 4.0;

/// A lane below the clients: its name, and what it shows of a state.
type Lane = (String, Box<dyn Fn(&State) -> Option<Shown>>);

/// A bar of such a lane.
#[derive(PartialEq, Eq)]
struct Shown {
    text: String,
    colour: &'static str,
}

struct Picture<'a> {
    tale: &'a PrimitiveTale,
    top: f64,
    out: String,
    /// What is taken of each lane by texts and signs.
    rows: Vec<Row>,
}

/// The whole picture.
pub fn draw_primitive(tale: &PrimitiveTale, language: Language) -> String {
    let about = tale.story.about.in_language(language);
    let practice = tale.practice;
    let title =
        language.pick(format!("{} ({practice})", capital(about)), format!("{about}（{practice}）"));
    let title = wrap(&title, ((WIDTH - 32.0) / TITLE_COLUMN) as usize);
    let legend = wrap(&legend(tale, language), ((WIDTH - 32.0) / COLUMN) as usize);
    let top = 34.0 + 23.0 * title.len() as f64 + 19.0 * legend.len() as f64 + 8.0;
    let lanes = lanes(tale, language);
    let count = tale.actors.len() + lanes.len();
    let mut picture = Picture { tale, top, out: String::new(), rows: vec![Row::default(); count] };
    let names = (0..tale.actors.len()).map(|client| tale.name(client, language));
    let names: Vec<String> = names.chain(lanes.iter().map(|(name, _)| name.clone())).collect();
    picture.head(&title, &legend, &names, language);
    picture.waits();
    picture.holds();
    picture.pauses();
    for (at, (_, shows)) in lanes.iter().enumerate() {
        picture.lane(tale.actors.len() + at, shows);
    }
    picture.tokens();
    picture.signs();
    picture.out + "</svg>\n"
}

fn legend(tale: &PrimitiveTale, language: Language) -> String {
    let has = |is: fn(&Event) -> bool| tale.count(is) > 0;
    let mut parts = vec![language.pick(
        "bar of a client: holds (number: its token) · line: waits · ticks: requests",
        "客户端的色条：持有（数字为令牌）· 横线：等待 · 短竖线：请求",
    )];
    if has(|event| *event == Event::Pauses) {
        parts.push(language.pick("hatched: paused", "斜纹：停顿"));
    }
    if has(|event| matches!(event, Event::Reads(..))) {
        parts.push(language.pick(
            "digit: value that is read, in a red field if the rows differ · dot: write accepted · cross: write \
             refused",
            "单个数字：读到的值，两行不一致时为红底 · 圆点：写入被接受 · 叉：写入被拒绝",
        ));
    }
    if has(|event| *event == Event::Crashes) {
        parts.push(language.pick("cross: crash", "叉：崩溃"));
    }
    parts.push(language.pick("below: what the server has", "下方：服务器里的状态"));
    parts.join(" · ")
}

/// The lanes below the clients: those that show anything.
fn lanes(tale: &PrimitiveTale, language: Language) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    let states = || tale.world.states.iter().map(|(_, state)| state);
    if states().any(|state| state.held.phase.is_some()) {
        let phase = move |state: &State| {
            let (want, token, holders) = state.held.phase?;
            let token = token.map(|token| format!(" {token}")).unwrap_or_default();
            Some(match want {
                Want::Write => {
                    let text = format!("{}{token}", language.pick("write", "写"));
                    Shown { text, colour: COLOURS[3] }
                }
                // A counter has nothing but the number.
                _ if token.is_empty() => Shown { text: holders.to_string(), colour: COLOURS[0] },
                _ => {
                    let text = format!("{}{token}", language.pick("read", "读"));
                    Shown { text, colour: COLOURS[0] }
                }
            })
        };
        let counted = states().any(|state| matches!(state.held.phase, Some((_, None, _))));
        let name = match counted {
            true => language.pick("reader count", "读者计数"),
            false => language.pick("lock", "锁"),
        };
        lanes.push((name.to_owned(), Box::new(phase)));
    }
    let slots = states().map(|state| state.held.slots.len()).max().unwrap_or(0);
    for slot in 0..slots {
        let shows = move |state: &State| {
            let (client, token) = (*state.held.slots.get(slot)?)?;
            Some(Shown { text: token.to_string(), colour: colour(client as usize) })
        };
        lanes.push((format!("{} {slot}", language.pick("slot", "槽位")), Box::new(shows)));
    }
    if states().any(|state| state.held.left.is_some()) {
        let left = |state: &State| {
            let left = state.held.left?;
            Some(Shown { text: left.to_string(), colour: if left == 0 { ALARM } else { GOOD } })
        };
        lanes.push((language.pick("permits left", "剩余许可").to_owned(), Box::new(left)));
    }
    if tale.count(|event| matches!(event, Event::Reads(..))) > 0 {
        let rows = |state: &State| {
            let text = state.rows.to_string();
            Some(Shown { text, colour: if state.rows == 1 { GOOD } else { ALARM } })
        };
        let fence =
            |state: &State| Some(Shown { text: state.fence?.to_string(), colour: COLOURS[4] });
        lanes.push((language.pick("rows a, b", "行 a、b").to_owned(), Box::new(rows)));
        lanes.push((language.pick("fence", "令牌检查").to_owned(), Box::new(fence)));
    }
    lanes
}

impl Picture<'_> {
    fn x(&self, time: u64) -> f64 {
        LEFT + (RIGHT - LEFT) * time as f64 / self.tale.world.end as f64
    }

    fn y(&self, lane: usize) -> f64 {
        self.top + LANE * (lane as f64 + 0.5)
    }

    fn head(&mut self, title: &[String], legend: &[String], names: &[String], language: Language) {
        let bottom = self.top + LANE * names.len() as f64;
        let height = bottom + 32.0;
        let _ = write!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"system-ui, 'Helvetica Neue', 'DejaVu Sans', Arial, \
             'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif\" font-size=\"14\" \
             fill=\"{INK}\">\n<title>{}</title>\n\
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
        let end = self.tale.world.end;
        let step = if end > 20_000 { 5000 } else { 500 };
        for at in (0..=end).step_by(step) {
            let (place, seconds) = (self.x(at), at as f64 / 1000.0);
            let _ = writeln!(
                self.out,
                "<line x1=\"{place:.1}\" y1=\"{:.1}\" x2=\"{place:.1}\" y2=\"{bottom:.1}\" stroke=\"{INK}\" \
                 stroke-opacity=\"0.15\"/><text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                 font-size=\"13\">{seconds} {}</text>",
                self.top,
                bottom + 19.0,
                language.pick("s", "秒")
            );
        }
        for (lane, name) in names.iter().enumerate() {
            let y = self.y(lane);
            let _ = writeln!(
                self.out,
                "<text x=\"16\" y=\"{:.1}\">{name}</text><line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" \
                 y2=\"{y:.1}\" stroke=\"{INK}\" stroke-opacity=\"0.3\"/>",
                y + 5.0
            );
        }
    }

    fn waits(&mut self) {
        for (client, from, until) in &self.tale.world.waited {
            let (from, until) = (self.x(*from), self.x(until.unwrap_or(self.tale.world.end)));
            let (y, colour) = (self.y(*client), colour(*client));
            let _ = writeln!(
                self.out,
                "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{until:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"3\"/>"
            );
        }
        // Requests that are too close to tell apart are one tick.
        let mut last = vec![f64::NEG_INFINITY; self.tale.actors.len()];
        for (time, client) in &self.tale.world.asked {
            let (x, y, colour) = (self.x(*time), self.y(*client), colour(*client));
            if x - last[*client] < TICK {
                continue;
            }
            last[*client] = x;
            let _ = writeln!(
                self.out,
                "<line class=\"ask\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" \
                 stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                y - 8.0,
                y + 8.0
            );
        }
    }

    fn holds(&mut self) {
        for hold in self.tale.holds() {
            let until = hold.until.unwrap_or(self.tale.world.end);
            let look = format!("class=\"hold\" fill=\"{}\" rx=\"3\"", colour(hold.client));
            self.bar(hold.client, (hold.from, until), &look);
        }
    }

    fn pauses(&mut self) {
        let told = &self.tale.world.told;
        for (from, client, _) in told.iter().filter(|(_, _, event)| *event == Event::Pauses) {
            let continues = |(_, one, event): &&(u64, usize, Event)| {
                one == client && *event == Event::Continues
            };
            let until = told.iter().find(continues).map_or(self.tale.world.end, |(time, ..)| *time);
            self.bar(*client, (*from, until), "fill=\"url(#stopped)\" fill-opacity=\"0.8\"");
        }
    }

    /// The token of each hold, where there is room.
    fn tokens(&mut self) {
        for hold in self.tale.holds() {
            let until = hold.until.unwrap_or(self.tale.world.end);
            let Some(token) = hold.token else { continue };
            let room = (self.x(hold.from), self.x(until));
            self.label(hold.client, room, &token.to_string());
        }
    }

    fn signs(&mut self) {
        for (time, client, event) in &self.tale.world.told {
            let (x, y) = (self.x(*time), self.y(*client));
            let sign = match event {
                Event::Writes(true) => (Sign::Dot, colour(*client)),
                Event::Writes(false) | Event::Crashes => (Sign::Cross, ALARM),
                Event::Reads(_, value, torn) => {
                    self.value(*client, x, *value, *torn);
                    continue;
                }
                _ => continue,
            };
            let at = self.rows[*client].place(x);
            sign.0.draw(&mut self.out, (at, y), sign.1);
        }
    }

    /// A value that is read, in a field of its own.
    fn value(&mut self, client: usize, x: f64, value: u64, torn: bool) {
        if !self.rows[client].takes(x - 8.0, x + 8.0) {
            return;
        }
        let (y, field) = (self.y(client), if torn { ALARM } else { "#374151" });
        let _ = writeln!(
            self.out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"16\" height=\"{BAR}\" fill=\"{field}\"/><text x=\"{x:.1}\" \
             y=\"{:.1}\" fill=\"#fff\" font-weight=\"600\" text-anchor=\"middle\">{value}</text>",
            x - 8.0,
            y - BAR / 2.0,
            y + 5.0
        );
    }

    /// What one lane shows, as bars: times with the same are one.
    fn lane(&mut self, lane: usize, shows: &dyn Fn(&State) -> Option<Shown>) {
        let mut bars: Vec<(u64, Option<Shown>)> = Vec::new();
        for (time, state) in &self.tale.world.states {
            let shown = shows(state);
            if bars.last().is_none_or(|(_, last)| *last != shown) {
                bars.push((*time, shown));
            }
        }
        let end = self.tale.world.end;
        for (at, (from, shown)) in bars.iter().enumerate() {
            let until = bars.get(at + 1).map_or(end, |(next, _)| *next);
            let Some(Shown { text, colour }) = shown else { continue };
            self.bar(
                lane,
                (*from, until),
                &format!("fill=\"{colour}\" fill-opacity=\"0.8\" rx=\"3\""),
            );
            self.label(lane, (self.x(*from), self.x(until)), text);
        }
    }

    /// A text on a bar, if it has room for it.
    fn label(&mut self, lane: usize, (from, until): (f64, f64), text: &str) {
        let wide = columns(text) as f64 * COLUMN;
        if until - from < wide + 6.0 || !self.rows[lane].takes(from + 3.0, from + 5.0 + wide) {
            return;
        }
        let _ = writeln!(
            self.out,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#fff\" font-weight=\"600\">{text}</text>",
            from + 4.0,
            self.y(lane) + 5.0
        );
    }

    fn bar(&mut self, lane: usize, (from, until): (u64, u64), look: &str) {
        let (from, until, y) = (self.x(from), self.x(until), self.y(lane) - BAR / 2.0);
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
