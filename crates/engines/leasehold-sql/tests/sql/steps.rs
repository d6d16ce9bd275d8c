//! The tables and the memory engine, which is the record of `leasehold-proto`, give the same
//! answers in random steps: what one statement decides is what the record would have decided.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, ConvertRequest, Converted, Ended, EventSink, Grant, Mode,
    Origin, ReleaseRequest, Renewal, Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::memory::MemoryStore;
use leasehold_core::{AttemptId, ClientId, Forced, Name, State, StoreUrl, Token};
use leasehold_test_servers::{MariaDb, Postgres};

use crate::{Test, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(postgres_and_the_record_say_the_same, Postgres),
    test!(mysql_and_the_record_say_the_same, MySql),
    test!(sqlite_and_the_record_say_the_same, Nothing),
    test!(postgres_and_the_record_say_the_same_when_leases_expire, Postgres),
    test!(mysql_and_the_record_say_the_same_when_leases_expire, MySql),
    test!(sqlite_and_the_record_say_the_same_when_leases_expire, Nothing),
];

const CLIENTS: u64 = 3;
const STEPS: usize = 30;
const SEEDS: u64 = 60;
/// So often four runs have an end of offers and short leases.
const ROUNDS: u64 = 6;
/// An offer without confirmation ends after two seconds: later answers may differ.
pub(crate) const LONGEST: Duration = Duration::from_millis(1500);
/// Short leases last as long as offers, and all of them are over after this time.
pub(crate) const SHORT: Duration = Duration::from_secs(2);
pub(crate) const OVER: Duration = Duration::from_millis(2100);
/// So many of the last attempts are renewed right after that.
pub(crate) const RENEWED: usize = 6;

async fn postgres_and_the_record_say_the_same() {
    let server = Postgres::start(&[]).unwrap();
    compare(&server.url()).await;
}

async fn mysql_and_the_record_say_the_same() {
    let server = MariaDb::start(&[]).unwrap();
    compare(&server.url()).await;
}

async fn sqlite_and_the_record_say_the_same() {
    let place = tempfile::tempdir().unwrap();
    compare(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}

async fn postgres_and_the_record_say_the_same_when_leases_expire() {
    let server = Postgres::start(&[]).unwrap();
    compare_expiring(&server.url()).await;
}

async fn mysql_and_the_record_say_the_same_when_leases_expire() {
    let server = MariaDb::start(&[]).unwrap();
    compare_expiring(&server.url()).await;
}

async fn sqlite_and_the_record_say_the_same_when_leases_expire() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    compare_expiring(&format!("sqlite:{}", path.display())).await;
}

/// One engine with its clients, and the tokens of their attempts as it returned them.
struct Engine {
    clients: Vec<Arc<dyn Backend>>,
    bases: HashMap<AttemptId, Token>,
    /// All bases in the order in which they were returned.
    heard: Vec<Token>,
    name: Option<Name>,
}

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn throw(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, AcquireRequest),
    Renew(usize, AcquireRequest),
    End(usize, ReleaseRequest),
    Force(usize, AttemptId),
    Convert(usize, ConvertRequest),
    /// All offers and short leases end.
    Expire,
}

/// Connects the clients of a comparison.
pub(crate) async fn clients(url: &str) -> Vec<Arc<dyn Backend>> {
    let mut clients: Vec<Arc<dyn Backend>> = Vec::new();
    for _ in 0..CLIENTS {
        let url = StoreUrl::parse(url).unwrap();
        clients.push(Arc::new(leasehold_sql::connect(url).await.unwrap()));
    }
    clients
}

async fn compare(url: &str) {
    let clients = clients(url).await;
    let mut compared = 0;
    for seed in 0..SEEDS {
        compared += run(seed, &clients, false).await;
    }
    let all = SEEDS as usize * STEPS;
    assert!(compared > all / 4, "the machine is too slow: {compared} of {all} steps compared");
}

async fn compare_expiring(url: &str) {
    let clients = clients(url).await;
    let mut compared = 0;
    for round in 0..ROUNDS {
        // Several wait for the end at the same time.
        let first = 1000 + round * 4;
        let [one, two, three, four] =
            [first, first + 1, first + 2, first + 3].map(|seed| run(seed, &clients, true));
        let (one, two, three, four) = tokio::join!(one, two, three, four);
        compared += one + two + three + four;
    }
    let all = 4 * ROUNDS as usize * STEPS;
    assert!(compared > all / 4, "the machine is too slow: {compared} of {all} steps compared");
}

/// Compares the answers to the steps of a seed. Returns how many were compared: after `LONGEST` no more are,
/// counted again after the end of offers and short leases.
async fn run(seed: u64, clients: &[Arc<dyn Backend>], expiring: bool) -> usize {
    let memory = MemoryStore::new();
    let mut record = Engine::new((0..CLIENTS).map(|_| {
        let backend: Arc<dyn Backend> = Arc::new(memory.connect());
        backend
    }));
    // Pushes are not read: both engines skip no waiter.
    let mut kept = Vec::new();
    for (number, client) in record.clients.iter().enumerate() {
        let (sink, events) = EventSink::channel();
        client.attach(ClientId::from_bits(number as u64 + 1), sink);
        kept.push(events);
    }
    let mut tables = Engine::new(clients.iter().cloned());
    let name = Name::new(format!("seed {seed}")).unwrap();
    let clock = Clock::system();
    let mut start = clock.now();
    let mut said: Vec<String> = Vec::new();
    for step in steps(seed, &name, expiring) {
        if matches!(step, Step::Expire) {
            clock.sleep(OVER).await;
            start = clock.now();
        }
        // A renewal serves no waiters here: they look themselves.
        if matches!(step, Step::Renew(..)) && record.is_left_to_waiters(&name).await {
            continue;
        }
        let (wanted, found) = (record.take(&step).await, tables.take(&step).await);
        let took = clock.now().steady_ns - start.steady_ns;
        if u128::from(took) > LONGEST.as_nanos() {
            break;
        }
        said.push(format!("{step:?}\n  record: {wanted}\n  tables: {found}"));
        assert_eq!(wanted, found, "seed {seed}:\n{}", said.join("\n"));
    }
    said.len()
}

fn steps(seed: u64, name: &Name, expiring: bool) -> Vec<Step> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let mut known: Vec<(usize, AcquireRequest)> = Vec::new();
    let mut sequence = seed as u32 * 1000;
    let mut fresh = |dice: &mut Dice, client: usize| {
        sequence += 1;
        let attempt = AttemptId::new(ClientId::from_bits(client as u64 + 1), sequence, 0);
        let ttl = if expiring && dice.throw(2) == 0 { SHORT } else { secs(60) };
        AcquireRequest::new(name.clone(), attempt, ttl)
            .with_mode([Mode::Exclusive, Mode::Shared][dice.throw(2) as usize])
            .with_wait(dice.throw(3) > 0)
            .with_fair(dice.throw(5) > 0)
            .with_tokens([1, 1, 100][dice.throw(3) as usize])
            .with_origin(Origin::new("host", 1, None))
    };
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        if expiring && steps.len() == STEPS / 2 {
            steps.push(Step::Expire);
            // Before another step has removed what has expired.
            let known = known.iter().rev().take(RENEWED);
            steps.extend(known.map(|(client, request)| Step::Renew(*client, request.clone())));
        }
        let client = dice.throw(CLIENTS) as usize;
        let old = match known.len() as u64 {
            0 => None,
            many => Some(known[dice.throw(many) as usize].clone()),
        };
        let kind = match expiring {
            // More repeated requests and renewals, before the end and after it.
            true => [0, 0, 0, 4, 4, 4, 5, 5, 6, 8, 9, 10][dice.throw(12) as usize],
            false => dice.throw(12),
        };
        match (kind, old) {
            (0..=3, _) | (_, None) => {
                let request = fresh(&mut dice, client);
                known.push((client, request.clone()));
                steps.push(Step::Ask(client, request));
            }
            (4, Some((client, mut request))) => {
                if expiring {
                    request.ttl = secs(60);
                }
                steps.push(Step::Ask(client, request));
            }
            (5, Some((client, request))) => steps.push(Step::Renew(client, request)),
            (6, Some((_, request))) => steps.push(Step::Force(client, request.attempt)),
            (10.., Some((client, request))) => {
                let mode = match request.mode {
                    Mode::Shared => Mode::Exclusive,
                    _ => Mode::Shared,
                };
                let next = fresh(&mut dice, client).with_mode(mode);
                known.push((client, next.clone()));
                let end = ReleaseRequest::new(request.name, request.attempt)
                    .with_suspect(dice.throw(4) == 0);
                let convert = ConvertRequest::new(end, next).with_again(dice.throw(4) == 0);
                steps.push(Step::Convert(client, convert));
            }
            (kind, Some((client, request))) => {
                let then = (kind == 7).then(|| fresh(&mut dice, client));
                if let Some(request) = &then {
                    known.push((client, request.clone()));
                }
                let keep = (dice.throw(8) == 0).then(|| secs(60));
                let suspect = dice.throw(4) == 0;
                let (name, attempt) = (request.name, request.attempt);
                let release = ReleaseRequest::new(name, attempt)
                    .with_suspect(suspect)
                    .with_keep(keep)
                    .with_then(then);
                steps.push(Step::End(client, release));
            }
        }
    }
    steps
}

impl Engine {
    fn new(clients: impl Iterator<Item = Arc<dyn Backend>>) -> Self {
        Self { clients: clients.collect(), bases: HashMap::new(), heard: Vec::new(), name: None }
    }

    /// Takes a step; returns its answer and the lock's status, with tokens numbered by their first
    /// occurrence.
    async fn take(&mut self, step: &Step) -> String {
        let (client, name, answer) = match step {
            Step::Expire => {
                let Some(name) = self.name.clone() else { return String::new() };
                return self.shown(0, &name).await;
            }
            Step::Ask(client, request) => {
                let answer = self.clients[*client].acquire(request.clone()).await.unwrap();
                (*client, &request.name, self.answer(request.attempt, &answer))
            }
            Step::Renew(client, request) => {
                let AcquireRequest { name, attempt, ttl, .. } = request.clone();
                let base = match self.bases.get(&attempt) {
                    Some(base) => Some(*base),
                    None => self.offered(*client, &name, attempt).await,
                };
                let base = base.or(Token::new(1)).unwrap();
                let lease = Renewal::new(name, attempt, base, ttl);
                let answer = match self.clients[*client].renew(&[lease]).await.remove(0).unwrap() {
                    // The tables do not say to a writer whether another client waits.
                    Renewed::Wanted if request.mode != Mode::Shared => Renewed::Renewed,
                    answer => answer,
                };
                (*client, &request.name, format!("{answer:?}"))
            }
            Step::End(client, release) => {
                let base = self.bases.get(&release.attempt).copied();
                let whole = release.clone().with_base(base).with_last(base);
                let Ended { verdict, then, .. } =
                    self.clients[*client].release(whole).await.unwrap();
                let mut text = format!("{verdict:?}");
                if let (Some(request), Some(answer)) = (&release.then, &then) {
                    text += &self.answer(request.attempt, answer);
                }
                (*client, &release.name, text)
            }
            Step::Convert(client, request) => {
                let base = self.bases.get(&request.end.attempt).copied();
                let mut request = request.clone();
                request.end = request.end.with_base(base).with_last(base);
                let name = request.next.name.clone();
                let attempt = request.next.attempt;
                let answer = match self.clients[*client].convert(request).await.unwrap() {
                    Converted::Granted(grant) => self.answer(attempt, &Answer::Granted(grant)),
                    other => format!("{other:?}"),
                };
                return format!("{answer}; {}", self.shown(*client, &name).await);
            }
            Step::Force(client, attempt) => {
                let token = self.bases.get(attempt).copied().or(Token::new(1)).unwrap();
                let Some(name) = self.name.clone() else { return String::new() };
                let forced = self.clients[*client].force_release(&name, token).await.unwrap();
                return match forced {
                    Forced::Other(token) => format!("other {}", self.hear(token)),
                    other => format!("{other:?}"),
                };
            }
        };
        let shown = self.shown(client, name).await;
        self.name = Some(name.clone());
        format!("{answer}; {shown}")
    }

    /// Returns the token of an offer that a push told its attempt. That of a reader is renewed only after the push.
    async fn offered(&self, client: usize, name: &Name, attempt: AttemptId) -> Option<Token> {
        let status = self.clients[client].status(name).await.unwrap();
        let is_offered = status.holder.is_some_and(|holder| holder.attempt == attempt);
        status.token.filter(|_| status.state == State::Held && is_offered)
    }

    /// Returns true if the lock is free although clients wait for it.
    async fn is_left_to_waiters(&self, name: &Name) -> bool {
        let status = self.clients[0].status(name).await.unwrap();
        status.state == State::Free && status.waiters.is_some_and(|waiters| !waiters.is_empty())
    }

    /// Returns who holds and who waits.
    async fn shown(&self, client: usize, name: &Name) -> String {
        let status = self.clients[client].status(name).await.unwrap();
        let holder =
            status.holder.map(|holder| holder.attempt).filter(|_| status.state != State::Free);
        let readers: Vec<AttemptId> = status.readers.iter().map(|one| one.attempt).collect();
        let waiters: Vec<(AttemptId, bool)> = (status.waiters.unwrap_or_default().iter())
            .map(|waiter| (waiter.holder.attempt, waiter.shared))
            .collect();
        format!("{:?} {holder:?} {readers:?} {waiters:?}", status.state)
    }

    fn answer(&mut self, attempt: AttemptId, answer: &Answer) -> String {
        match answer {
            Answer::Granted(Grant { tokens, wanted, .. }) => {
                self.bases.insert(attempt, tokens.base());
                let many = tokens.top().get() - tokens.base().get();
                format!("granted {} and {many}, wanted {wanted}", self.hear(tokens.base()))
            }
            Answer::Queued { place, .. } => format!("queued at {place:?}"),
            Answer::Busy { .. } => "busy".to_owned(),
            Answer::Later { why, .. } => format!("later: {why}"),
            Answer::Ended => "ended".to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn hear(&mut self, token: Token) -> usize {
        match self.heard.iter().position(|heard| *heard == token) {
            Some(at) => at,
            None => {
                assert!(self.heard.iter().all(|heard| *heard < token), "tokens went back");
                self.heard.push(token);
                self.heard.len() - 1
            }
        }
    }
}
