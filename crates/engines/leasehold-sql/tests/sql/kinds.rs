//! A name is a lock, a semaphore or a latch, also for a client of an earlier build and in its tables;
//! and what is left of each after its end.

use leasehold_conformance::until;
use leasehold_core::backend::{Answer, Backend, ValueSwap, Verdict};
use leasehold_core::proto::semaphore::Demand;
use leasehold_core::{ErrorKind, State, StoreUrl};

use crate::earlier::Database;
use crate::side::{Side, name, release};
use crate::{Test, connect, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(earlier_clients_take_no_semaphore_and_no_latch_on_postgres, Postgres),
    test!(earlier_clients_take_no_semaphore_and_no_latch_on_mysql, MySql),
    test!(earlier_clients_take_no_semaphore_and_no_latch_on_sqlite, Nothing),
    test!(older_tables_get_semaphores_and_latches_on_postgres, Postgres),
    test!(older_tables_get_semaphores_and_latches_on_mysql, MySql),
    test!(older_tables_get_semaphores_and_latches_on_sqlite, Nothing),
    test!(what_is_used_is_not_forgotten_on_postgres, Postgres),
    test!(what_is_used_is_not_forgotten_on_mysql, MySql),
    test!(what_is_used_is_not_forgotten_on_sqlite, Nothing),
    test!(a_value_is_swapped_once_on_postgres, Postgres),
    test!(a_value_is_swapped_once_on_mysql, MySql),
    test!(a_value_is_swapped_once_on_sqlite, Nothing),
    test!(renewals_of_permits_keep_up_with_busy_clients_on_postgres, Postgres),
    test!(renewals_of_permits_keep_up_with_busy_clients_on_mysql, MySql),
    test!(renewals_of_permits_keep_up_with_busy_clients_on_sqlite, Nothing),
    test!(tokens_of_permits_grow_though_the_clock_went_back_on_postgres, Postgres),
    test!(tokens_of_permits_grow_though_the_clock_went_back_on_mysql, MySql),
    test!(tokens_of_permits_grow_though_the_clock_went_back_on_sqlite, Nothing),
];

on_each!(never_another_kind:
    earlier_clients_take_no_semaphore_and_no_latch_on_postgres,
    earlier_clients_take_no_semaphore_and_no_latch_on_mysql,
    earlier_clients_take_no_semaphore_and_no_latch_on_sqlite);
on_each!(tables_of_locks_alone:
    older_tables_get_semaphores_and_latches_on_postgres,
    older_tables_get_semaphores_and_latches_on_mysql,
    older_tables_get_semaphores_and_latches_on_sqlite);
on_each!(forgotten:
    what_is_used_is_not_forgotten_on_postgres,
    what_is_used_is_not_forgotten_on_mysql,
    what_is_used_is_not_forgotten_on_sqlite);
on_each!(swapped_once:
    a_value_is_swapped_once_on_postgres,
    a_value_is_swapped_once_on_mysql,
    a_value_is_swapped_once_on_sqlite);
on_each!(renewed_beside_busy_clients:
    renewals_of_permits_keep_up_with_busy_clients_on_postgres,
    renewals_of_permits_keep_up_with_busy_clients_on_mysql,
    renewals_of_permits_keep_up_with_busy_clients_on_sqlite);
on_each!(ahead_of_the_clock:
    tokens_of_permits_grow_though_the_clock_went_back_on_postgres,
    tokens_of_permits_grow_though_the_clock_went_back_on_mysql,
    tokens_of_permits_grow_though_the_clock_went_back_on_sqlite);

fn swap(seen: Option<&[u8]>, next: &[u8]) -> ValueSwap {
    ValueSwap::new(name(), seen.map(<[u8]>::to_vec), next.to_vec(), secs(60))
}

impl<C> Database<C>
where
    for<'c> &'c mut C: sqlx::Executor<'c>,
    for<'c> <&'c mut C as sqlx::Executor<'c>>::Database: sqlx::Database,
{
    /// The statement of an earlier client takes a name only when it belongs to no other kind.
    async fn never_another_kind(mut self) {
        let mut side = Side::connect(&self.url, 1).await;
        let lock = side.request(secs(60));
        let permit = side.request(secs(60)).with_demand(Demand::new(1, 2).unwrap());
        let answer = side.backend.acquire(permit.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Permit { .. }), "{answer:?}");
        self.take(lock.attempt).await;
        assert_eq!(side.status().await.state, State::Permits, "an earlier client took it");
        let error = side.backend.acquire(lock.clone()).await.unwrap_err();
        assert!(error.message().contains("semaphore"), "{error}");
        let error = side.backend.swap_value(swap(None, b"x")).await.unwrap_err();
        assert!(error.message().contains("latch"), "{error}");
        // An earlier client refuses the state of the row, when it reads it.
        assert_eq!(self.rows("SELECT 1 FROM leasehold_locks WHERE state = 3").await, 1);
        // No client has used the semaphore for long: the name belongs to none.
        self.rows("UPDATE leasehold_locks SET until_us = 1").await;
        assert_eq!(side.status().await.state, State::Free);
        assert!(side.backend.swap_value(swap(None, b"x")).await.unwrap());
        assert_eq!(side.backend.value(&name()).await.unwrap().as_deref(), Some(&b"x"[..]));
        self.take(lock.attempt).await;
        assert!(side.status().await.holder.is_none(), "an earlier client took a latch");
        for request in [lock.clone(), permit.clone()] {
            let error = side.backend.acquire(request).await.unwrap_err();
            assert!(error.message().contains("latch"), "{error}");
        }
        let error = side.backend.limit(&name()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        // The latch has expired: an earlier client takes the lock, and its token is above those of
        // the semaphore.
        self.rows("UPDATE leasehold_locks SET until_us = 1").await;
        assert_eq!(side.backend.value(&name()).await.unwrap(), None);
        self.take(lock.attempt).await;
        let status = side.status().await;
        assert_eq!(status.holder.map(|holder| holder.attempt), Some(lock.attempt));
        assert_eq!(self.rows("SELECT 1 FROM leasehold_locks WHERE top > 1000").await, 1);
        let error = side.backend.acquire(permit.clone()).await.unwrap_err();
        assert!(error.message().contains("lock"), "{error}");
        assert!(side.backend.swap_value(swap(None, b"y")).await.is_err());
        assert!(side.backend.value(&name()).await.is_err());
        // The name is free again. A new semaphore has none of the permits of the first one, and
        // higher tokens, though the clock is behind.
        let ahead = 1_i64 << 52;
        self.rows(&format!(
            "UPDATE leasehold_locks SET state = 0, until_us = 1, ended_us = 0, top = {ahead}"
        ))
        .await;
        let both = side.request(secs(60)).with_demand(Demand::new(2, 2).unwrap());
        let answer = side.backend.acquire(both).await.unwrap();
        let Answer::Permit { grant, slots } = answer else { panic!("{answer:?}") };
        assert_eq!(slots, [0, 1]);
        assert!(grant.tokens.base().get() > ahead as u64, "the token went back");
        let permits = side.status().await.permits.unwrap();
        assert_eq!((permits.held, permits.holders.len()), (2, 1), "an earlier permit is left");
    }

    /// Tables of an earlier version have neither.
    async fn tables_of_locks_alone(mut self) {
        connect(&self.url).await;
        for table in ["records", "permits", "readers", "read_waiters"] {
            self.rows(&format!("DROP TABLE leasehold_{table}")).await;
        }
        let old = connect(&format!("{}?create=no", self.url)).await;
        old.lock("a").acquire().await.unwrap().release().await.unwrap();
        let errors = [
            old.semaphore("b", 2).acquire().await.unwrap_err(),
            old.semaphore("b", 2).limit().await.unwrap_err(),
            old.latch("c", 2).count_down("x").await.unwrap_err(),
            old.rw_lock("d").read().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains("leasehold init --store URL"), "{error}");
        }
        assert!(old.list("", 10).await.is_ok());
        leasehold_sql::forget(StoreUrl::parse(&self.url).unwrap(), "zzz").await.unwrap();
        leasehold_sql::init(StoreUrl::parse(&self.url).unwrap()).await.unwrap();
        let new = connect(&format!("{}?create=no", self.url)).await;
        new.semaphore("b", 2).acquire().await.unwrap().release().await.unwrap();
        assert_eq!(new.latch("c", 2).count_down("x").await.unwrap(), 1);
        new.rw_lock("d").read().await.unwrap().release().await.unwrap();
        assert_eq!(new.list("", 10).await.unwrap().len(), 4);
    }

    /// `forget` removes what is unused, and nothing else.
    async fn forgotten(mut self) {
        let client = connect(&self.url).await;
        let permit = client.semaphore("used", 2).acquire().await.unwrap();
        client.semaphore("unused", 2).acquire().await.unwrap().release().await.unwrap();
        client.latch("latch", 2).count_down("x").await.unwrap();
        let url = || StoreUrl::parse(&self.url).unwrap();
        until("the clock has passed the tokens", || async {
            leasehold_sql::forget(url(), "unused").await.is_ok_and(|many| many == 1)
        })
        .await
        .unwrap();
        assert_eq!(leasehold_sql::forget(url(), "").await.unwrap(), 0);
        assert!(permit.is_valid());
        assert_eq!(client.semaphore("used", 2).limit().await.unwrap(), Some(2));
        assert!(client.semaphore("unused", 3).limit().await.unwrap().is_none());
        assert_eq!(client.latch("latch", 2).count_down("y").await.unwrap(), 0);
        assert_eq!(self.rows("SELECT 1 FROM leasehold_records").await, 2);
        assert_eq!(self.rows("SELECT 1 FROM leasehold_permits").await, 1);
        permit.release().await.unwrap();
    }

    /// Of many clients that replace the same value, one succeeds.
    async fn swapped_once(self) {
        let mut sides = Vec::new();
        for number in 0..4 {
            sides.push(Side::connect(&self.url, number + 1).await);
        }
        let mut seen: Option<Vec<u8>> = None;
        for round in 0..10_u8 {
            let swaps = sides.iter().enumerate().map(|(number, side)| {
                let next = vec![round, number as u8];
                let swap = ValueSwap::new(name(), seen.clone(), next.clone(), secs(60));
                async move { side.backend.swap_value(swap).await.unwrap().then_some(next) }
            });
            let swapped = futures_util::future::join_all(swaps).await;
            let won: Vec<Vec<u8>> = swapped.into_iter().flatten().collect();
            assert_eq!(won.len(), 1, "round {round}");
            let stored = sides[0].backend.value(&name()).await.unwrap();
            assert_eq!(stored.as_ref(), won.first());
            seen = stored;
        }
        let longest = vec![7; ValueSwap::MAX_BYTES];
        let swap = ValueSwap::new(name(), seen, longest.clone(), secs(60));
        assert!(sides[0].backend.swap_value(swap).await.unwrap());
        assert_eq!(sides[1].backend.value(&name()).await.unwrap(), Some(longest));
    }

    /// A permit outlives its ttl beside clients that acquire and release all the time.
    async fn renewed_beside_busy_clients(self) {
        let client = connect(&self.url).await;
        let kept = client.semaphore("s", 4).ttl(secs(3)).acquire().await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let semaphore = connect(&self.url).await.semaphore("s", 4);
            tasks.push(tokio::spawn(async move {
                for _ in 0..25 {
                    semaphore.acquire_many(2).await?.release().await?;
                }
                Ok::<_, leasehold_core::Error>(())
            }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let before = kept.remaining();
        until("it was renewed", || async { kept.remaining() > before + ms(1) }).await.unwrap();
        kept.ensure(ms(0)).unwrap();
        kept.release().await.unwrap();
    }

    /// The tokens of a slot grow from permit to permit, and on to a lock of the name.
    async fn ahead_of_the_clock(mut self) {
        let mut side = Side::connect(&self.url, 1).await;
        let mut last = 1_u64 << 52;
        for round in 0..4 {
            let permit = side.request(secs(60)).with_demand(Demand::new(1, 2).unwrap());
            let answer = side.backend.acquire(permit.clone()).await.unwrap();
            let Answer::Permit { grant, slots } = answer else { panic!("{answer:?}") };
            assert_eq!(slots, [0], "round {round}");
            let end = release(&permit, grant).with_slot(0);
            assert_eq!(side.verdict(&end).await, Verdict::Released, "round {round}");
            if round > 0 {
                assert!(grant.tokens.base().get() > last, "the token of the slot went back");
                last = grant.tokens.base().get();
                continue;
            }
            // The clock goes back: now the slot has a token of the future.
            let limit = [0_u8, 0, 0, 2].into_iter().chain(1_u64.to_be_bytes());
            let slot = [0_u8, 0, 0, 1, 0, 0, 0, 0].into_iter();
            let tokens = last.to_be_bytes().into_iter().chain(0_u64.to_be_bytes());
            let record: Vec<u8> = b"S1"
                .iter()
                .copied()
                .chain(limit)
                .chain(slot)
                .chain(tokens)
                .chain([0; 8])
                .collect();
            let record = (self.bytes)(&record);
            self.rows(&format!("UPDATE leasehold_records SET data = {record}")).await;
        }
        // The name belongs to no kind any more.
        self.rows("UPDATE leasehold_locks SET until_us = 1").await;
        let lock = side.request(secs(60));
        assert!(side.granted(&lock).await.tokens.base().get() > last, "the token went back");
    }
}
