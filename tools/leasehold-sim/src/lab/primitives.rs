//! Stories of read-write locks and semaphores: as they are usually built, and Leasehold's.

mod client;
mod picture;
mod store;
mod stories;
mod world;

use self::world::{Event, World};
use super::practice::Practice;
use super::text::{Language, Text};
use super::words::listed;

pub use self::picture::draw_primitive;
pub use self::store::Want;
pub use self::world::Hold;

/// One story of a read-write lock or a semaphore.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveStory {
    /// As it is written on a command line.
    pub name: &'static str,
    /// What happens, in a sentence.
    pub about: Text,
    /// How it is built: the recipe, and Leasehold.
    built: [Text; 2],
    shown: Text,
    spared: Text,
    goes_wrong: fn(&PrimitiveTale) -> bool,
    happened: fn(&PrimitiveTale, Language) -> String,
    world: fn(Practice, u64) -> (World, Vec<Actor>),
}

/// Who a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Actor {
    role: Role,
    /// Counts from 1 among those of its role.
    number: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Reader,
    Writer,
    Client,
}

/// A story of a read-write lock or a semaphore that has been played.
#[derive(Debug)]
pub struct PrimitiveTale {
    /// Which.
    pub story: &'static PrimitiveStory,
    /// How.
    pub practice: Practice,
    actors: Vec<Actor>,
    world: World,
}

/// All stories of read-write locks and semaphores.
pub fn primitive_stories() -> &'static [PrimitiveStory] {
    stories::STORIES
}

impl PrimitiveStory {
    /// The story of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        primitive_stories().iter().find(|story| story.name == name)
    }

    /// Plays it.
    pub fn play(&'static self, practice: Practice, seed: u64) -> PrimitiveTale {
        let (mut world, actors) = (self.world)(practice, seed);
        world.play();
        PrimitiveTale { story: self, practice, actors, world }
    }

    /// How it is built with this practice, in a sentence.
    pub fn built(&self, practice: Practice, language: Language) -> &'static str {
        let [recipe, ours] = self.built;
        let built = if practice == Practice::Recipe { recipe } else { ours };
        built.in_language(language)
    }
}

impl PrimitiveTale {
    /// Whether it went wrong, as its story says.
    pub fn went_wrong(&self) -> bool {
        (self.story.goes_wrong)(self)
    }

    /// From when to when each client believed that it held the lock or a permit.
    pub fn holds(&self) -> &[Hold] {
        &self.world.holds
    }

    /// A client's name.
    pub fn name(&self, client: usize, language: Language) -> String {
        let Actor { role, number } = self.actors[client];
        match role {
            Role::Reader => language.pick(format!("reader {number}"), format!("读者 {number}")),
            Role::Writer => language.pick(format!("writer {number}"), format!("写者 {number}")),
            Role::Client => language.pick(format!("client {number}"), format!("客户端 {number}")),
        }
    }

    /// The clients that wait at the end, and have never held anything.
    pub fn in_vain(&self) -> Vec<usize> {
        let never = |client: &usize| self.holds().iter().all(|hold| hold.client != *client);
        self.world.waiting().filter(never).collect()
    }

    /// The longest time that a client waited until it held, in milliseconds.
    pub fn longest_wait(&self) -> u64 {
        let waited = self.world.waited.iter();
        waited.filter_map(|(_, from, until)| Some((*until)? - from)).max().unwrap_or(0)
    }

    /// How often a reader got another value in the second row than in the first one.
    pub fn torn_reads(&self) -> usize {
        self.count(|event| matches!(event, Event::Reads(_, _, true)))
    }

    /// Writes that the fence let pass, and writes that it refused.
    pub fn writes(&self) -> (usize, usize) {
        let writes = |passes| self.count(move |event| *event == Event::Writes(passes));
        (writes(true), writes(false))
    }

    /// How many permits of a counter no client holds and no client can get.
    pub fn lost_permits(&self) -> u32 {
        let held = self.world.holding().count() as u32;
        let left = self.world.states.last().and_then(|(_, state)| state.held.left);
        left.map_or(0, |left| stories::PERMITS.saturating_sub(left + held))
    }

    fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.world.told.iter().filter(|(_, _, event)| is(event)).count()
    }

    /// How it is built, in a sentence.
    pub fn place(&self, language: Language) -> &'static str {
        self.story.built(self.practice, language)
    }

    /// What happened when, in nanoseconds, a line for each thing.
    pub fn lines(&self, language: Language) -> Vec<(u64, String)> {
        let line = |(time, client, event): &(u64, usize, Event)| {
            (time * 1_000_000, self.line(*client, *event, language))
        };
        self.world.told.iter().map(line).collect()
    }

    fn line(&self, client: usize, event: Event, language: Language) -> String {
        let name = self.name(client, language);
        let role = self.actors[client].role;
        let (english, chinese) = match event {
            Event::Waits => ("waits".to_owned(), "等待".to_owned()),
            Event::Holds(token, slot) => held(role, token, slot),
            Event::Releases => match role {
                Role::Client => ("releases its permit".to_owned(), "释放许可".to_owned()),
                _ => ("releases the lock".to_owned(), "释放锁".to_owned()),
            },
            Event::Checks(true) => {
                ("checks its guard: valid".to_owned(), "检查守卫：有效".to_owned())
            }
            Event::Checks(false) => {
                ("checks its guard: not valid".to_owned(), "检查守卫：已失效".to_owned())
            }
            Event::Announces(token) => {
                (format!("announces token {token}"), format!("登记令牌 {token}"))
            }
            Event::Reads(row, value, torn) => {
                let row = ["a", "b"][row];
                match torn {
                    false => (format!("reads row {row}: {value}"), format!("读行 {row}：{value}")),
                    true => (
                        format!("!! reads row {row}: {value}, not what it read in the other row"),
                        format!("!! 读行 {row}：{value}，与另一行不同"),
                    ),
                }
            }
            Event::Writes(true) => (
                "writes both rows: accepted by the fence".to_owned(),
                "写入两行：令牌检查通过".to_owned(),
            ),
            Event::Writes(false) => (
                "writes both rows: refused by the fence".to_owned(),
                "写入两行：因令牌被拒绝".to_owned(),
            ),
            Event::Pauses => ("is paused".to_owned(), "停顿".to_owned()),
            Event::Continues => ("continues".to_owned(), "恢复运行".to_owned()),
            Event::Crashes => ("crashes".to_owned(), "崩溃".to_owned()),
            Event::Ends => (
                "'s lease has ended by its own clock".to_owned(),
                "的租约按它自己的时钟已经结束".to_owned(),
            ),
            Event::Loses => {
                ("finds that its lease has ended".to_owned(), "发现租约已经结束".to_owned())
            }
        };
        let line = match language {
            Language::English => format!("{name} {english}"),
            Language::Chinese => format!("{name} {chinese}"),
        };
        line.replace(" 's ", "'s ").replace(" !! ", language.pick(": !! ", "：!! "))
    }

    /// What happened, in a sentence, and what prevented it or would have, in another.
    pub fn moral(&self, language: Language) -> String {
        let happened = (self.story.happened)(self, language);
        let why = if self.went_wrong() { self.story.shown } else { self.story.spared };
        format!("{happened}{}{}", language.pick(" ", ""), why.in_language(language))
    }

    /// The clients that waited in vain, as the beginning of a sentence.
    fn listed_in_vain(&self, language: Language) -> String {
        let names = self.in_vain().into_iter().map(|client| self.name(client, language));
        listed(&names.collect::<Vec<_>>(), language)
    }
}

/// What a client holds, in a sentence.
fn held(role: Role, token: Option<u64>, slot: Option<u32>) -> (String, String) {
    let (english, chinese) = match (role, slot) {
        (Role::Reader, _) => ("holds the lock to read".to_owned(), "获得读锁".to_owned()),
        (Role::Writer, _) => ("holds the lock to write".to_owned(), "获得写锁".to_owned()),
        (Role::Client, None) => ("holds a permit".to_owned(), "获得一个许可".to_owned()),
        (Role::Client, Some(slot)) => (format!("holds slot {slot}"), format!("获得槽位 {slot}")),
    };
    match token {
        None => (english, chinese),
        Some(token) => (format!("{english}, token {token}"), format!("{chinese}，令牌 {token}")),
    }
}
