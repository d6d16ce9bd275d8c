//! The tables and the memory engine, which is the record of `leasehold-proto`, give the same answers
//! in random steps of a semaphore.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, EventSink, LimitChange, Origin, ReleaseRequest, Renewal,
    Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::memory::MemoryStore;
use leasehold_core::proto::semaphore::{Demand, Limit};
use leasehold_core::{AttemptId, ClientId, ErrorKind, Name, Token};
use leasehold_test_servers::{MariaDb, Postgres};

use crate::steps::{Dice, LONGEST, OVER, RENEWED, SHORT, clients};
use crate::{Test, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(postgres_and_the_record_give_the_same_permits, Postgres),
    test!(mysql_and_the_record_give_the_same_permits, MySql),
    test!(sqlite_and_the_record_give_the_same_permits, Nothing),
    test!(postgres_and_the_record_give_the_same_permits_when_some_expire, Postgres),
    test!(mysql_and_the_record_give_the_same_permits_when_some_expire, MySql),
    test!(sqlite_and_the_record_give_the_same_permits_when_some_expire, Nothing),
];

const CLIENTS: u64 = 3;
const STEPS: usize = 24;
const SEEDS: u64 = 40;
/// So often four runs have an end of offers and short leases.
const ROUNDS: u64 = 6;

async fn postgres_and_the_record_give_the_same_permits() {
    let server = Postgres::start(&[]).unwrap();
    compare(&server.url()).await;
}

async fn mysql_and_the_record_give_the_same_permits() {
    let server = MariaDb::start(&[]).unwrap();
    compare(&server.url()).await;
}

async fn sqlite_and_the_record_give_the_same_permits() {
    let place = tempfile::tempdir().unwrap();
    compare(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}

async fn postgres_and_the_record_give_the_same_permits_when_some_expire() {
    let server = Postgres::start(&[]).unwrap();
    compare_expiring(&server.url()).await;
}

async fn mysql_and_the_record_give_the_same_permits_when_some_expire() {
    let server = MariaDb::start(&[]).unwrap();
    compare_expiring(&server.url()).await;
}

async fn sqlite_and_the_record_give_the_same_permits_when_some_expire() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    compare_expiring(&format!("sqlite:{}", path.display())).await;
}

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, AcquireRequest),
    Renew(usize, AcquireRequest),
    End(usize, AcquireRequest, bool),
    Force(usize, AttemptId),
    Limit(usize, LimitChange),
    /// All offers and short leases end.
    Expire,
}

/// A permit that an engine has granted.
#[derive(Clone)]
struct Known {
    base: Token,
    slots: Vec<u32>,
}

/// One engine with its clients, and the permits of their attempts.
struct Engine {
    clients: Vec<Arc<dyn Backend>>,
    known: HashMap<AttemptId, Known>,
    /// The last token of each slot.
    last: HashMap<u32, Token>,
}

async fn compare(url: &str) {
    let clients = clients(url).await;
    let mut compared = 0;
    for seed in 0..SEEDS {
        compared += run(seed, &clients, false).await;
    }
    let all = SEEDS as usize * STEPS;
    assert!(compared > all / 6, "the machine is too slow: {compared} of {all} steps compared");
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
    assert!(compared > all / 2, "the machine is too slow: {compared} of {all} steps compared");
}

/// Compares the answers to the steps of a seed. Returns how many were compared: after `LONGEST` no more are,
/// counted again after the end of offers and short leases.
async fn run(seed: u64, clients: &[Arc<dyn Backend>], expiring: bool) -> usize {
    let memory = MemoryStore::new();
    let in_memory = (0..CLIENTS).map(|_| {
        let backend: Arc<dyn Backend> = Arc::new(memory.connect());
        backend
    });
    let mut record = Engine::new(in_memory);
    // Pushes are not read: both engines skip no waiter.
    let mut kept = Vec::new();
    for (number, client) in record.clients.iter().enumerate() {
        let (sink, events) = EventSink::channel();
        client.attach(ClientId::from_bits(number as u64 + 1), sink);
        kept.push(events);
    }
    let mut tables = Engine::new(clients.iter().cloned());
    let name = Name::new(format!("semaphore {seed}")).unwrap();
    let clock = Clock::system();
    let mut start = clock.now();
    let mut said: Vec<String> = Vec::new();
    for step in steps(seed, &name, expiring) {
        if matches!(step, Step::Expire) {
            clock.sleep(OVER).await;
            start = clock.now();
        }
        // Permits in different slots may have equal tokens, by the resolution of the clock.
        let ambiguous = |attempt| record.is_ambiguous(attempt) || tables.is_ambiguous(attempt);
        if matches!(&step, Step::Force(_, attempt) if ambiguous(*attempt)) {
            continue;
        }
        let (wanted, found) = (record.take(&step, &name).await, tables.take(&step, &name).await);
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
    let (mut sequence, mut version) = (seed as u32 * 1000, 1);
    let mut fresh = |dice: &mut Dice, client: usize| {
        sequence += 1;
        let attempt = AttemptId::new(ClientId::from_bits(client as u64 + 1), sequence, 4);
        let limit = [4, 4, 4, 4, 3][dice.throw(5) as usize];
        let demand = Demand::new(1 + dice.throw(3) as u32, limit).unwrap();
        let ttl = if expiring && dice.throw(2) == 0 { SHORT } else { secs(60) };
        AcquireRequest::new(name.clone(), attempt, ttl)
            .with_demand(demand)
            .with_wait(dice.throw(3) > 0)
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
            true => [0, 0, 0, 0, 5, 5, 5, 6, 6, 7, 8, 9][dice.throw(12) as usize],
            false => dice.throw(12),
        };
        match (kind, old) {
            (0..=4, _) | (_, None) => {
                let request = fresh(&mut dice, client);
                known.push((client, request.clone()));
                steps.push(Step::Ask(client, request));
            }
            (5, Some((client, mut request))) => {
                if expiring {
                    request.ttl = secs(60);
                }
                steps.push(Step::Ask(client, request));
            }
            (6, Some((client, request))) => steps.push(Step::Renew(client, request)),
            (7, Some((_, request))) => steps.push(Step::Force(client, request.attempt)),
            (8, Some(_)) => {
                let limit = Limit::new(2 + dice.throw(4) as u32).unwrap();
                steps.push(Step::Limit(client, LimitChange::new(name.clone(), version, limit)));
                version += dice.throw(2);
            }
            (_, Some((client, request))) => {
                steps.push(Step::End(client, request, dice.throw(4) == 0));
            }
        }
    }
    steps
}

impl Engine {
    fn new(clients: impl Iterator<Item = Arc<dyn Backend>>) -> Self {
        Self { clients: clients.collect(), known: HashMap::new(), last: HashMap::new() }
    }

    fn is_ambiguous(&self, attempt: AttemptId) -> bool {
        let Some(known) = self.known.get(&attempt) else { return false };
        self.known.values().filter(|other| other.base == known.base).count() > 1
    }

    /// Takes a step; returns its answer and the status of the semaphore, without tokens.
    async fn take(&mut self, step: &Step, name: &Name) -> String {
        let answer = match step {
            Step::Expire => String::new(),
            Step::Ask(client, request) => {
                match self.clients[*client].acquire(request.clone()).await {
                    Ok(Answer::Permit { grant, slots }) => {
                        self.hear(request.attempt, grant.tokens.base(), &slots);
                        format!("granted {slots:?}")
                    }
                    Ok(Answer::Queued { place, .. }) => format!("queued at {place:?}"),
                    Ok(Answer::Busy { .. }) => "busy".to_owned(),
                    Ok(other) => format!("{other:?}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                        error.message().to_owned()
                    }
                }
            }
            Step::Renew(client, request) => {
                let (name, attempt) = (request.name.clone(), request.attempt);
                let base = match self.known.get(&attempt) {
                    Some(known) => Some(known.base),
                    None => self.offered(*client, &name, attempt).await,
                };
                let base = base.or(Token::new(1)).unwrap();
                let lease = Renewal::new(name, attempt, base, request.ttl).of_permit();
                let answer = self.clients[*client].renew(&[lease]).await.remove(0).unwrap();
                let renewed = !matches!(answer, Renewed::Lost);
                format!("renewed {renewed} {answer:?}")
            }
            Step::End(client, request, suspect) => {
                let known = self.known.get(&request.attempt).cloned();
                let base = known.as_ref().map(|known| known.base);
                let slot = known.and_then(|known| known.slots.first().copied());
                let release = ReleaseRequest::new(request.name.clone(), request.attempt)
                    .with_base(base)
                    .with_last(base)
                    .with_slot(slot)
                    .with_suspect(*suspect);
                format!("{:?}", self.clients[*client].release(release).await.unwrap().verdict)
            }
            Step::Force(client, attempt) => {
                let token = self.known.get(attempt).map_or(Token::new(1), |one| Some(one.base));
                let forced = self.clients[*client].force_release(name, token.unwrap()).await;
                format!("{:?}", forced.unwrap())
            }
            Step::Limit(client, change) => {
                format!("{:?}", self.clients[*client].set_limit(change.clone()).await.unwrap())
            }
        };
        let status = self.clients[0].status(name).await.unwrap();
        let permits = status.permits.unwrap();
        let holders: Vec<_> =
            permits.holders.iter().map(|one| (one.holder.attempt, &one.slots)).collect();
        let waiters: Vec<_> = (status.waiters.unwrap_or_default().iter())
            .map(|waiter| (waiter.holder.attempt, waiter.slots))
            .collect();
        let (limit, held) = ((permits.limit, permits.version), permits.held);
        format!("{answer}; {:?} {limit:?} {held} {holders:?} {waiters:?}", status.state)
    }

    /// Returns the token of an offer that a push told its attempt.
    async fn offered(&self, client: usize, name: &Name, attempt: AttemptId) -> Option<Token> {
        let status = self.clients[client].status(name).await.unwrap();
        let mut holders = status.permits?.holders.into_iter();
        holders.find(|one| one.holder.attempt == attempt).map(|one| one.token)
    }

    fn hear(&mut self, attempt: AttemptId, base: Token, slots: &[u32]) {
        let known = Known { base, slots: slots.to_vec() };
        let before = self.known.insert(attempt, known);
        if before.is_some_and(|before| before.base == base && before.slots == slots) {
            return;
        }
        for slot in slots {
            let last = self.last.insert(*slot, base);
            assert!(last.is_none_or(|last| last < base), "the token of slot {slot} went back");
        }
    }
}
