//! Permits of processes that are killed, of clients that are slow, and of a newer version; and many waiters at once.

use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::holder::Process;
use leasehold_conformance::newer::semaphore_is_left_alone;
use leasehold_conformance::until;
use leasehold_core::backend::{AcquireRequest, Answer, Backend, Grant, Renewal, Renewed, Verdict};
use leasehold_core::clock::Clock;
use leasehold_core::proto::semaphore::Demand;
use leasehold_core::{AttemptId, Client, ErrorKind, State, StoreUrl, Token};
use tokio::sync::Mutex;

use crate::earlier::Database;
use crate::side::{Side, name, release};
use crate::{Test, connect, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_holder_gives_exactly_its_slots_back_on_postgres, Postgres),
    test!(a_killed_holder_gives_exactly_its_slots_back_on_mysql, MySql),
    test!(a_killed_holder_gives_exactly_its_slots_back_on_sqlite, Nothing),
    test!(a_newer_semaphore_is_left_alone_on_postgres, Postgres),
    test!(a_newer_semaphore_is_left_alone_on_mysql, MySql),
    test!(a_newer_semaphore_is_left_alone_on_sqlite, Nothing),
    test!(a_renewal_revives_no_permit_on_postgres, Postgres),
    test!(a_renewal_revives_no_permit_on_mysql, MySql),
    test!(a_renewal_revives_no_permit_on_sqlite, Nothing),
    test!(a_confirmed_offer_is_not_granted_again_before_others_on_postgres, Postgres),
    test!(a_confirmed_offer_is_not_granted_again_before_others_on_mysql, MySql),
    test!(a_confirmed_offer_is_not_granted_again_before_others_on_sqlite, Nothing),
    test!(a_name_lasts_as_long_as_its_permits_on_postgres, Postgres),
    test!(a_name_lasts_as_long_as_its_permits_on_mysql, MySql),
    test!(a_name_lasts_as_long_as_its_permits_on_sqlite, Nothing),
    test!(a_dead_waiter_for_many_slots_blocks_no_other_on_postgres, Postgres),
    test!(a_dead_waiter_for_many_slots_blocks_no_other_on_mysql, MySql),
    test!(a_dead_waiter_for_many_slots_blocks_no_other_on_sqlite, Nothing),
    test!(a_release_serves_more_waiters_than_one_step_on_postgres, Postgres),
    test!(a_release_serves_more_waiters_than_one_step_on_mysql, MySql),
    test!(a_release_serves_more_waiters_than_one_step_on_sqlite, Nothing),
];

on_each!(killed:
    a_killed_holder_gives_exactly_its_slots_back_on_postgres,
    a_killed_holder_gives_exactly_its_slots_back_on_mysql,
    a_killed_holder_gives_exactly_its_slots_back_on_sqlite);
on_each!(newer:
    a_newer_semaphore_is_left_alone_on_postgres,
    a_newer_semaphore_is_left_alone_on_mysql,
    a_newer_semaphore_is_left_alone_on_sqlite);
on_each!(never_revived:
    a_renewal_revives_no_permit_on_postgres,
    a_renewal_revives_no_permit_on_mysql,
    a_renewal_revives_no_permit_on_sqlite);
on_each!(confirmed:
    a_confirmed_offer_is_not_granted_again_before_others_on_postgres,
    a_confirmed_offer_is_not_granted_again_before_others_on_mysql,
    a_confirmed_offer_is_not_granted_again_before_others_on_sqlite);
on_each!(kept_name:
    a_name_lasts_as_long_as_its_permits_on_postgres,
    a_name_lasts_as_long_as_its_permits_on_mysql,
    a_name_lasts_as_long_as_its_permits_on_sqlite);
on_each!(dead_waiter:
    a_dead_waiter_for_many_slots_blocks_no_other_on_postgres,
    a_dead_waiter_for_many_slots_blocks_no_other_on_mysql,
    a_dead_waiter_for_many_slots_blocks_no_other_on_sqlite);
on_each!(many_waiters:
    a_release_serves_more_waiters_than_one_step_on_postgres,
    a_release_serves_more_waiters_than_one_step_on_mysql,
    a_release_serves_more_waiters_than_one_step_on_sqlite);

fn asks(side: &mut Side, slots: u32, limit: u32) -> AcquireRequest {
    side.request(secs(60)).with_demand(Demand::new(slots, limit).unwrap()).with_wait(true)
}

async fn granted(side: &Side, request: &AcquireRequest) -> (Grant, Vec<u32>) {
    match side.backend.acquire(request.clone()).await.unwrap() {
        Answer::Permit { grant, slots } => (grant, slots),
        other => panic!("{other:?}"),
    }
}

async fn renewed(side: &Side, request: &AcquireRequest, base: Token) -> Renewed {
    let AcquireRequest { name, attempt, ttl, .. } = request.clone();
    let lease = Renewal::new(name, attempt, base, ttl).of_permit();
    side.backend.renew(&[lease]).await.remove(0).unwrap()
}

/// The record of a semaphore with the limit 2 of version 1, as `semaphore/bytes.rs` says. Slot 0 has this token, and one
/// attempt waits for 2 slots, and asked at this time.
fn record(token: Token, waiter: AttemptId, seen_us: u64) -> Vec<u8> {
    let number = |number: u32| number.to_be_bytes().to_vec();
    let long = |number: u64| number.to_be_bytes().to_vec();
    [
        b"S1".to_vec(),
        [number(2), long(1)].concat(),
        [number(1), number(0), long(token.get()), long(0)].concat(),
        [number(1), waiter.to_bytes().to_vec(), number(2), long(60_000_000), number(1)].concat(),
        [long(seen_us), long(seen_us), number(0), number(0)].concat(),
    ]
    .concat()
}

impl<C> Database<C>
where
    for<'c> &'c mut C: sqlx::Executor<'c>,
    for<'c> <&'c mut C as sqlx::Executor<'c>>::Database: sqlx::Database,
{
    async fn killed(mut self) {
        let client = connect(&self.url).await;
        let semaphore = client.semaphore("a", 4).ttl(secs(60));
        let first = semaphore.acquire().await.unwrap();
        let mut dead = Process::with_slots(&self.url, "a", secs(8), (2, 4)).unwrap();
        let last = semaphore.acquire().await.unwrap();
        assert_eq!((first.slots(), last.slots()), (&[0][..], &[3][..]));
        let waiter = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire_many_within(2, secs(120)).await }
        });
        let waits = || async {
            let status = semaphore.status().await.unwrap();
            let held = status.permits.map(|permits| permits.held);
            held == Some(4) && status.waiters.is_some_and(|waiters| waiters.len() == 1)
        };
        until("it waits for the slots of the process", waits).await.unwrap();
        let token = dead.token;
        dead.kill();
        let next = waiter.await.unwrap().unwrap();
        assert_eq!(next.slots(), [1, 2], "other slots than those of the killed process");
        assert!(next.token().get() > token, "the token went back");
        assert!(first.is_valid() && last.is_valid(), "another permit was ended");
        assert!(semaphore.try_acquire().await.unwrap().is_none(), "more slots than the limit");
        for permit in [first, next, last] {
            permit.release().await.unwrap();
        }
        assert_eq!(self.rows("SELECT 1 FROM leasehold_permits").await, 0);
    }

    async fn newer(self) {
        let (url, bytes) = (self.url.clone(), self.bytes);
        let database = Mutex::new(self);
        let backend = leasehold_sql::connect(StoreUrl::parse(&url).unwrap()).await.unwrap();
        let backend: Arc<dyn Backend> = Arc::new(backend);
        let make_newer = async || {
            let mut database = database.lock().await;
            let data = bytes(b"S2 of a newer version");
            database.rows(&format!("UPDATE leasehold_records SET data = {data}")).await;
            for table in ["locks", "records", "permits"] {
                let copy = format!("CREATE TABLE copy_{table} AS SELECT * FROM leasehold_{table}");
                database.rows(&copy).await;
            }
        };
        // How many rows differ from what was stored then.
        let stored = async || {
            let mut database = database.lock().await;
            let mut differ = 0;
            for table in ["locks", "records", "permits"] {
                let (copy, now) = (format!("copy_{table}"), format!("leasehold_{table}"));
                for (one, other) in [(&copy, &now), (&now, &copy)] {
                    let rows = format!("SELECT * FROM {one} EXCEPT SELECT * FROM {other}");
                    differ += database.rows(&rows).await;
                }
            }
            differ
        };
        let (name, says) = (name(), "a newer version");
        let asked = semaphore_is_left_alone(backend, &name, says, make_newer, stored);
        let (renewed, released) = asked.await.unwrap();
        // A renewal is about the row of the permit alone.
        assert_eq!(renewed.unwrap(), Renewed::Wanted);
        assert_eq!(released.unwrap_err().kind(), ErrorKind::Foreign);
        // Other names are listed, forgotten and used as before.
        let client = connect(&url).await;
        client.lock("b").acquire().await.unwrap().release().await.unwrap();
        let listed = client.list("", 10).await.unwrap();
        let names: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(listed[0].note.as_ref().is_some_and(|note| note.contains(says)), "{listed:?}");
        assert_eq!(listed[0].state, State::Unknown);
        until("the other one is forgotten", || async {
            leasehold_sql::forget(StoreUrl::parse(&url).unwrap(), "").await.unwrap() == 1
        })
        .await
        .unwrap();
        let data = bytes(b"S2 of a newer version");
        let left = format!("SELECT 1 FROM leasehold_records WHERE data = {data}");
        assert_eq!(database.lock().await.rows(&left).await, 1, "it was forgotten or changed");
    }

    /// The time of a permit has passed, and no step has removed it.
    async fn never_revived(mut self) {
        let mut side = Side::connect(&self.url, 1).await;
        let (first, second) = (asks(&mut side, 1, 2), asks(&mut side, 1, 2));
        let (first_grant, _) = granted(&side, &first).await;
        let (second_grant, _) = granted(&side, &second).await;
        let attempt = (self.bytes)(&first.attempt.to_bytes());
        let expires =
            format!("UPDATE leasehold_permits SET until_us = 1 WHERE attempt = {attempt}");
        self.rows(&expires).await;
        for _ in 0..2 {
            let answer = renewed(&side, &first, first_grant.tokens.base()).await;
            assert_eq!(answer, Renewed::Lost, "an expired permit was renewed");
            let answer = renewed(&side, &second, second_grant.tokens.base()).await;
            assert_eq!(answer, Renewed::Renewed);
        }
        let permits = side.status().await.permits.unwrap();
        assert_eq!((permits.held, permits.holders[0].slots.as_slice()), (1, &[1][..]));
        // A repeated acquire stores a longer lease.
        assert_eq!(granted(&side, &second.clone().with_ttl(secs(600))).await.1, [1]);
        let long =
            format!("SELECT 1 FROM leasehold_permits WHERE until_us > {} + 500000000", self.now);
        assert_eq!(self.rows(&long).await, 1, "the longer lease was not stored");
    }

    async fn confirmed(mut self) {
        let mut side = Side::connect(&self.url, 1).await;
        let (held, waits, behind) =
            (asks(&mut side, 1, 1), asks(&mut side, 1, 1), asks(&mut side, 1, 1));
        let (grant, slots) = granted(&side, &held).await;
        for request in [&waits, &behind] {
            let answer = side.backend.acquire(request.clone()).await.unwrap();
            assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
        }
        let end = release(&held, grant).with_slot(slots.first().copied());
        assert_eq!(side.verdict(&end).await, Verdict::Released);
        // On a slow machine the offer would end meanwhile.
        self.rows("UPDATE leasehold_permits SET until_us = until_us + 60000000").await;
        // It knows its offer by the push alone.
        let offered = side.status().await.permits.unwrap().holders.remove(0);
        assert_eq!(offered.holder.attempt, waits.attempt);
        let answer = renewed(&side, &waits, offered.token).await;
        assert!(matches!(answer, Renewed::Renewed | Renewed::Wanted), "{answer:?}");
        self.rows("UPDATE leasehold_permits SET until_us = 1").await;
        let answer = side.backend.acquire(waits.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }), "passed the next waiter: {answer:?}");
        assert_eq!(granted(&side, &behind).await.1, [0]);
    }

    async fn kept_name(mut self) {
        let mut side = Side::connect(&self.url, 1).await;
        let held = asks(&mut side, 1, 2);
        let (grant, _) = granted(&side, &held).await;
        let now = self.now;
        // As after an hour of renewals by a client that has written nothing else.
        self.rows(&format!(
            "UPDATE leasehold_locks SET until_us = {now} + 60000000, since_us = {now}"
        ))
        .await;
        assert_eq!(renewed(&side, &held, grant.tokens.base()).await, Renewed::Renewed);
        let lasts = format!(
            "SELECT 1 FROM leasehold_locks WHERE until_us > {now} + 3600000000 AND since_us > {now} + 30000000"
        );
        assert_eq!(self.rows(&lasts).await, 1, "the name ends before its permit");
    }

    async fn dead_waiter(mut self) {
        let mut side = Side::connect(&self.url, 1).await;
        let (held, dead) = (asks(&mut side, 1, 2), asks(&mut side, 2, 2).attempt);
        let (grant, _) = granted(&side, &held).await;
        let token = grant.tokens.top();
        for (asked, is_dead) in [(Duration::ZERO, false), (secs(46), true)] {
            let seen_us = Clock::system().now().unix_us() - asked.as_micros() as u64;
            let data = (self.bytes)(&record(token, dead, seen_us));
            self.rows(&format!("UPDATE leasehold_records SET data = {data}")).await;
            let next = asks(&mut side, 1, 2);
            let answer = side.backend.acquire(next).await.unwrap();
            match is_dead {
                true => assert!(matches!(answer, Answer::Permit { .. }), "it waits: {answer:?}"),
                false => assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}"),
            }
        }
    }

    async fn many_waiters(mut self) {
        const ALL: u32 = 300;
        let mut side = Side::connect(&self.url, 1).await;
        let held = asks(&mut side, ALL, ALL);
        let (grant, slots) = granted(&side, &held).await;
        for _ in 0..ALL {
            let waits = asks(&mut side, 1, ALL);
            let answer = side.backend.acquire(waits).await.unwrap();
            assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
        }
        let end = release(&held, grant).with_slot(slots.first().copied());
        assert_eq!(side.verdict(&end).await, Verdict::Released);
        let client: Client = connect(&self.url).await;
        let waiters = client.semaphore("a", ALL).status().await.unwrap().waiters.unwrap();
        assert_eq!(waiters.len(), 0, "they wait beside free slots");
        assert_eq!(self.rows("SELECT 1 FROM leasehold_permits").await, ALL as usize);
    }
}
