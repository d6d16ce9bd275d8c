//! The stories of read-write locks and semaphores, with their numbers.

use super::super::text::{Language, capital, text};
use super::client::Act;
use super::store::{Store, Want};
use super::world::{Event, Fault, World};
use super::{Actor, Practice, PrimitiveStory, PrimitiveTale, Role};
use crate::simulator::Rng;

/// How long a lease lasts, in milliseconds.
const TTL: u64 = 30_000;
/// How many permits the semaphore has.
pub(super) const PERMITS: u32 = 2;

/// A world whose clients are added one by one, each up to 50 ms later than the story says.
struct Cast {
    world: World,
    actors: Vec<Actor>,
    rng: Rng,
}

impl Cast {
    fn new(store: Store, end: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let world = World::new(store, TTL, end, Rng::new(rng.bits()));
        Self { world, actors: Vec::new(), rng }
    }

    fn add(&mut self, role: Role, starts: impl Iterator<Item = u64>, work: &[(u64, Act)]) {
        let starts = starts.map(|start| start + self.rng.below(50)).collect();
        let number = self.actors.iter().filter(|actor| actor.role == role).count() + 1;
        self.actors.push(Actor { role, number });
        let want = match role {
            Role::Reader => Want::Read,
            Role::Writer => Want::Write,
            Role::Client => Want::Permit,
        };
        self.world.client(want, starts, work);
    }

    fn once(&mut self, role: Role, start: u64, work: &[(u64, Act)]) {
        self.add(role, std::iter::once(start), work);
    }

    fn done(self) -> (World, Vec<Actor>) {
        (self.world, self.actors)
    }
}

fn in_vain(tale: &PrimitiveTale) -> bool {
    !tale.in_vain().is_empty()
}

/// The end of a wait, in a sentence.
fn waited(tale: &PrimitiveTale, language: Language) -> String {
    let longest = tale.longest_wait() as f64 / 1000.0;
    language.pick(
        format!("The longest wait was {longest:.1} s."),
        format!("等待最长 {longest:.1} 秒。"),
    )
}

pub(super) const STORIES: &[PrimitiveStory] = &[
    PrimitiveStory {
        name: "writer-starvation",
        about: text(
            "three readers acquire the lock again and again, and two writers wait for it",
            "三个读者一次又一次地加读锁，两个写者在等待",
        ),
        built: [
            text(
                "a counter of readers and a flag for the writer; a client that is refused asks again",
                "读者计数加写者标志；被拒绝的客户端再次请求",
            ),
            text("Leasehold's read-write lock on one Redis", "Leasehold 的读写锁，一个 Redis"),
        ],
        shown: text(
            "A waiting writer must stop new readers (--setup leasehold).",
            "有写者等待时，新的读者不能再进入（--setup leasehold）。",
        ),
        spared: text(
            "Each waiting writer stopped new readers, and those entered together between the two writers.",
            "有写者等待时，新的读者不再进入；在两个写者之间，它们一起进入。",
        ),
        goes_wrong: in_vain,
        happened: |tale, language| match in_vain(tale) {
            true => {
                let names = tale.listed_in_vain(language);
                let since = tale.world.told.iter().find(|(_, client, event)| {
                    *event == Event::Waits && tale.in_vain().contains(client)
                });
                let since = since.map_or(0, |(time, ..)| *time);
                let passed = tale.holds().iter().filter(|hold| hold.from > since).count();
                language.pick(
                    format!(
                        "{} waited in vain until the end, and readers passed them {passed} times.",
                        capital(&names)
                    ),
                    format!("{names} 直到最后也没有等到锁，读者 {passed} 次抢在它们前面。"),
                )
            }
            false => waited(tale, language),
        },
        world: |practice, seed| {
            let store = match practice {
                Practice::Recipe => Store::by_readers(),
                Practice::Leasehold => Store::read_write(),
            };
            let mut cast = Cast::new(store, 5000, seed);
            // One of three begins to read every 400 ms, so the others still read.
            for reader in 0..3 {
                let starts = (0..4).map(|round| 400 * reader + 1200 * round);
                cast.add(Role::Reader, starts, &[(1000, Act::Release)]);
            }
            for start in [1000, 1300] {
                cast.once(Role::Writer, start, &[(500, Act::Release)]);
            }
            cast.done()
        },
    },
    PrimitiveStory {
        name: "paused-writer",
        about: text(
            "a writer pauses for 35 s before its write, with a ttl of 30 s, and readers read in the meantime",
            "ttl 30 秒，写者在写入前停顿 35 秒，其间读者开始读",
        ),
        built: [
            text(
                "Leasehold's read-write lock and a fence at the rows; readers do not announce their token",
                "Leasehold 的读写锁，行上检查令牌；读者不登记令牌",
            ),
            text(
                "Leasehold's read-write lock and a fence at the rows; readers announce their token before they read",
                "Leasehold 的读写锁，行上检查令牌；读者先登记令牌再读",
            ),
        ],
        shown: text(
            "The fence let the late write pass, since it had not seen the readers' larger token: announce it \
             before reading (--setup leasehold).",
            "令牌检查放过了迟到的写入，因为它还没有见过读者更大的令牌：读之前要先登记（--setup leasehold）。",
        ),
        spared: text(
            "The readers had announced their token, so the fence refused the late write.",
            "读者已经登记了令牌，迟到的写入因令牌被拒绝。",
        ),
        goes_wrong: |tale| tale.torn_reads() > 0,
        happened: |tale, language| match tale.torn_reads() {
            0 => language.pick(
                "Each reader read the same in both rows.".to_owned(),
                "每个读者在两行里读到的都一致。".to_owned(),
            ),
            torn => language.pick(
                format!(
                    "{torn} readers read one row before the late write, and the other row after it."
                ),
                format!("{torn} 个读者在迟到的写入之前读了一行，之后读了另一行。"),
            ),
        },
        world: |practice, seed| {
            let mut cast = Cast::new(Store::read_write(), 50_000, seed);
            let write = [(5000, Act::Check), (5100, Act::Write), (5200, Act::Release)];
            cast.once(Role::Writer, 0, &write);
            for (start, first, second) in [(6000, 3000, 13_000), (7000, 4000, 14_000)] {
                let announce = (practice == Practice::Leasehold).then_some((0, Act::Announce));
                let reads =
                    [(first, Act::Read(0)), (second, Act::Read(1)), (second + 1000, Act::Release)];
                let work: Vec<_> = announce.into_iter().chain(reads).collect();
                cast.once(Role::Reader, start, &work);
            }
            cast.world.fault(5080, 0, Fault::Pause(35_000));
            cast.done()
        },
    },
    PrimitiveStory {
        name: "lost-permits",
        about: text(
            "a semaphore has two permits; one holder crashes at 5 s, another at 12 s",
            "信号量有两个许可；一个持有者在 5 秒时崩溃，另一个在 12 秒时崩溃",
        ),
        built: [
            text(
                "a counter of permits: acquire takes one off, release adds one",
                "许可计数：获取减一，释放加一",
            ),
            text("Leasehold's semaphore on one Redis", "Leasehold 的信号量，一个 Redis"),
        ],
        shown: text(
            "A counter cannot tell who holds a permit: permits must be numbered slots, each with a lease \
             (--setup leasehold).",
            "计数分不清谁持有许可：许可要有编号的槽位，各有自己的租约（--setup leasehold）。",
        ),
        spared: text(
            "Each permit is a numbered slot with a lease of its own: the slots of the crashed holders were \
             granted again when their leases had ended.",
            "每个许可是一个有编号的槽位，有自己的租约：崩溃者的租约结束后，槽位又授予了别的客户端。",
        ),
        goes_wrong: in_vain,
        happened: |tale, language| match in_vain(tale) {
            true => {
                let (names, lost) = (tale.listed_in_vain(language), tale.lost_permits());
                language.pick(
                    format!(
                        "{} waited in vain until the end: {lost} of {PERMITS} permits were lost.",
                        capital(&names)
                    ),
                    format!("{names} 直到最后也没有等到：{PERMITS} 个许可丢了 {lost} 个。"),
                )
            }
            false => waited(tale, language),
        },
        world: |practice, seed| {
            let store = match practice {
                Practice::Recipe => Store::Left(PERMITS),
                Practice::Leasehold => Store::semaphore(PERMITS),
            };
            let mut cast = Cast::new(store, 50_000, seed);
            for (start, hold) in
                [(0, 20_000), (1000, 7000), (2000, 20_000), (9000, 15_000), (10_000, 6000)]
            {
                cast.once(Role::Client, start, &[(hold, Act::Release)]);
            }
            cast.world.fault(5000, 0, Fault::Crash);
            cast.world.fault(12_000, 2, Fault::Crash);
            cast.done()
        },
    },
];
