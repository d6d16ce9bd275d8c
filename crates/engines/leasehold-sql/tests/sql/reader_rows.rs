//! The rows of readers: those of an earlier phase and expired ones count no more, however late their client renews them.

use leasehold_core::backend::{AcquireRequest, Answer, Backend, Mode, Renewed, Verdict};
use leasehold_core::{AttemptId, State};

use crate::earlier::Database;
use crate::side::{Side, name, release};
use crate::{Test, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_renewal_revives_no_expired_reader_on_postgres, Postgres),
    test!(a_renewal_revives_no_expired_reader_on_mysql, MySql),
    test!(a_renewal_revives_no_expired_reader_on_sqlite, Nothing),
    test!(a_renewal_revives_no_reader_of_an_earlier_phase_on_postgres, Postgres),
    test!(a_renewal_revives_no_reader_of_an_earlier_phase_on_mysql, MySql),
    test!(a_renewal_revives_no_reader_of_an_earlier_phase_on_sqlite, Nothing),
    test!(a_repeated_acquire_stores_its_longer_lease_on_postgres, Postgres),
    test!(a_repeated_acquire_stores_its_longer_lease_on_mysql, MySql),
    test!(a_repeated_acquire_stores_its_longer_lease_on_sqlite, Nothing),
    test!(a_writer_goes_first_after_readers_on_postgres, Postgres),
    test!(a_writer_goes_first_after_readers_on_mysql, MySql),
    test!(a_writer_goes_first_after_readers_on_sqlite, Nothing),
];

on_each!(expired:
    a_renewal_revives_no_expired_reader_on_postgres,
    a_renewal_revives_no_expired_reader_on_mysql,
    a_renewal_revives_no_expired_reader_on_sqlite);
on_each!(earlier_phase:
    a_renewal_revives_no_reader_of_an_earlier_phase_on_postgres,
    a_renewal_revives_no_reader_of_an_earlier_phase_on_mysql,
    a_renewal_revives_no_reader_of_an_earlier_phase_on_sqlite);
on_each!(longer_lease:
    a_repeated_acquire_stores_its_longer_lease_on_postgres,
    a_repeated_acquire_stores_its_longer_lease_on_mysql,
    a_repeated_acquire_stores_its_longer_lease_on_sqlite);
on_each!(turn_of_the_writer:
    a_writer_goes_first_after_readers_on_postgres,
    a_writer_goes_first_after_readers_on_mysql,
    a_writer_goes_first_after_readers_on_sqlite);

fn reads(side: &mut Side) -> AcquireRequest {
    side.request(secs(60)).with_mode(Mode::Shared).with_wait(true)
}

async fn readers(side: &Side) -> Vec<AttemptId> {
    side.status().await.readers.iter().map(|reader| reader.attempt).collect()
}

impl<C> Database<C>
where
    for<'c> &'c mut C: sqlx::Executor<'c>,
    for<'c> <&'c mut C as sqlx::Executor<'c>>::Database: sqlx::Database,
{
    async fn expired(mut self) {
        let (mut one, mut two) =
            (Side::connect(&self.url, 1).await, Side::connect(&self.url, 2).await);
        let (first, second) = (reads(&mut one), reads(&mut two));
        let (first_grant, second_grant) = (one.granted(&first).await, two.granted(&second).await);
        let attempt = (self.bytes)(&first.attempt.to_bytes());
        self.rows(&format!("UPDATE leasehold_readers SET until_us = 1 WHERE attempt = {attempt}"))
            .await;
        for _ in 0..2 {
            let renewed = one.renew(&first, first_grant).await.unwrap();
            assert_eq!(renewed, Renewed::Lost, "an expired reader was renewed");
            assert_eq!(two.renew(&second, second_grant).await.unwrap(), Renewed::Renewed);
            assert_eq!(readers(&one).await, [second.attempt]);
        }
        // A renewal also says that a writer waits, in case its message was lost.
        let write = one.request(secs(60)).with_wait(true);
        one.queued(&write).await;
        assert_eq!(two.renew(&second, second_grant).await.unwrap(), Renewed::Wanted);
        assert_eq!(two.verdict(&release(&second, second_grant)).await, Verdict::Released);
        assert!(one.granted(&write).await.tokens.base() > second_grant.tokens.base());
    }

    /// A client that knows no readers has ended the phase, and leaves the rows of its readers.
    async fn earlier_phase(mut self) {
        let (mut one, mut two) =
            (Side::connect(&self.url, 1).await, Side::connect(&self.url, 2).await);
        let first = reads(&mut one).with_ttl(secs(600));
        let first_grant = one.granted(&first).await;
        self.rows("UPDATE leasehold_locks SET stamp = stamp + 1, state = 0, until_us = 1").await;
        let second = reads(&mut two);
        let second_grant = two.granted(&second).await;
        assert!(second_grant.tokens.base() > first_grant.tokens.base(), "it joined the phase");
        let renewed = one.renew(&first, first_grant).await.unwrap();
        assert_eq!(renewed, Renewed::Lost, "a reader of an earlier phase was renewed");
        assert_eq!(two.renew(&second, second_grant).await.unwrap(), Renewed::Renewed);
        assert_eq!(readers(&one).await, [second.attempt]);
        assert_ne!(one.verdict(&release(&first, first_grant)).await, Verdict::Gone);
        assert_eq!(readers(&one).await, [second.attempt], "the late release ended the other one");
        assert_eq!(two.verdict(&release(&second, second_grant)).await, Verdict::Released);
        assert_eq!(one.status().await.state, State::Free);
    }

    async fn longer_lease(mut self) {
        let mut side = Side::connect(&self.url, 1).await;
        let read = reads(&mut side);
        let grant = side.granted(&read).await;
        let again = side.granted(&read.clone().with_ttl(secs(600))).await;
        assert_eq!(again.tokens, grant.tokens);
        let long = format!("until_us > {} + 500000000", self.now);
        for table in ["leasehold_readers", "leasehold_locks"] {
            let stored = self.rows(&format!("SELECT 1 FROM {table} WHERE {long}")).await;
            assert_eq!(stored, 1, "the longer lease is not in {table}");
        }
    }

    /// The row was freed by hand while clients of both modes waited.
    async fn turn_of_the_writer(mut self) {
        let (mut one, mut two) =
            (Side::connect(&self.url, 1).await, Side::connect(&self.url, 2).await);
        let first = reads(&mut one);
        let grant = one.granted(&first).await;
        let (write, read) = (two.request(secs(60)).with_wait(true), reads(&mut two));
        two.queued(&write).await;
        two.queued(&read).await;
        self.rows("UPDATE leasehold_locks SET stamp = stamp + 1, state = 0, until_us = 1").await;
        let answer = two.backend.acquire(read.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }), "a second read phase: {answer:?}");
        let written = two.granted(&write).await;
        assert!(written.tokens.base() > grant.tokens.base());
        assert_eq!(two.verdict(&release(&write, written)).await, Verdict::Released);
        assert!(two.granted(&read).await.tokens.base() > written.tokens.base());
        assert_eq!(two.backend.status(&name()).await.unwrap().state, State::Shared);
    }
}
