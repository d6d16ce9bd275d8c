//! A shop with one item and many buyers: three ways to sell that never oversell, and the books by
//! which overselling is found where a lock has failed all the same.

use std::time::Duration;

use leasehold::fence::sql::{Engine, RowFence};
use leasehold::rows::{Change, Tries, Versioned, Wait, failure, for_update, retry};
use leasehold::{Lock, Result};
use sqlx::{Encode, Executor, Pool, Type};

/// How a buyer keeps others from selling the same piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Locks the row.
    Pessimistic,
    /// Looks at the row's version when it writes.
    Optimistic,
    /// Holds a lock of Leasehold, and has the row check its token.
    Lock,
    /// Not at all: what happens with a lock that lets two in, and no fence.
    FailedLock,
}

impl Way {
    /// Those that never oversell.
    pub(crate) const SAFE: [Self; 3] = [Self::Pessimistic, Self::Optimistic, Self::Lock];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pessimistic => "pessimistic",
            Self::Optimistic => "optimistic",
            Self::Lock => "lock",
            Self::FailedLock => "failed-lock",
        }
    }
}

/// The stock, as its own column has it and as the books have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Books {
    /// Pieces that came in.
    pub(crate) stocked: i64,
    /// Pieces that are left, as the row says.
    pub(crate) left: i64,
    /// Sales that stand.
    pub(crate) sold: i64,
}

impl Books {
    /// Sales that no piece is there for.
    pub(crate) fn oversold(self) -> i64 {
        (self.sold - self.stocked).max(0)
    }

    /// Whether row and books agree.
    pub(crate) fn balance(self) -> bool {
        self.left == self.stocked - self.sold
    }
}

/// The shop, on any engine.
#[derive(Debug)]
pub(crate) struct Shop<E: Engine> {
    pool: Pool<E>,
    lock: Lock,
    versioned: Versioned,
    fence: RowFence,
}

const SELECT: &str = "SELECT amount FROM leasehold_stock WHERE item = 1";

impl<E: Talk> Shop<E>
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    /// A shop whose stock is in this database, and whose buyers share this lock.
    pub(crate) fn new(pool: Pool<E>, lock: Lock) -> Result<Self> {
        let versioned = Versioned::new("leasehold_stock", "item", "version")?;
        let fence = RowFence::new("leasehold_stock", "item", "fence")?;
        Ok(Self { pool, lock, versioned, fence })
    }

    /// Begins anew with so many pieces, and no sales.
    pub(crate) async fn stock(&self, pieces: i64) -> Result<()> {
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        for statement in [
            "DROP TABLE IF EXISTS leasehold_stock",
            "DROP TABLE IF EXISTS leasehold_sales",
            "CREATE TABLE leasehold_stock (item BIGINT PRIMARY KEY, stocked BIGINT NOT NULL, \
             amount BIGINT NOT NULL CHECK (amount >= 0), version BIGINT NOT NULL DEFAULT 0, \
             fence BIGINT NOT NULL DEFAULT 0)",
            "CREATE TABLE leasehold_sales (buyer BIGINT PRIMARY KEY, item BIGINT NOT NULL, \
             state VARCHAR(9) NOT NULL)",
            &format!(
                "INSERT INTO leasehold_stock (item, stocked, amount) VALUES (1, {pieces}, {pieces})"
            ),
        ] {
            E::exec(&mut connection, statement).await?;
        }
        Ok(())
    }

    /// Leaves nothing in the database.
    pub(crate) async fn close(&self) -> Result<()> {
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        E::exec(&mut connection, "DROP TABLE leasehold_stock").await?;
        E::exec(&mut connection, "DROP TABLE leasehold_sales").await
    }

    /// One piece for this buyer; false when none is left.
    pub(crate) async fn buy(&self, way: Way, buyer: u64) -> Result<bool> {
        match way {
            Way::Pessimistic => self.pessimistic(buyer).await,
            Way::Optimistic => self.optimistic(buyer).await,
            Way::Lock => self.with_lock(buyer).await,
            Way::FailedLock => self.unprotected(buyer).await,
        }
    }

    async fn pessimistic(&self, buyer: u64) -> Result<bool> {
        let mut tx = self.pool.begin().await.map_err(failure)?;
        let rows = for_update(&mut tx, SELECT, Wait::AsSet).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let sold = take::<E>(&mut tx, E::column(row, "amount")?, buyer).await?;
        tx.commit().await.map_err(failure)?;
        Ok(sold)
    }

    async fn optimistic(&self, buyer: u64) -> Result<bool> {
        // Without a limit: no buyer is refused while stock is left.
        let tries =
            Tries::most(u32::MAX).backoff(Duration::from_millis(1), Duration::from_millis(20));
        retry(tries, || async {
            // Read before the transaction, which then takes locks from its write to its end only.
            let mut connection = self.pool.acquire().await.map_err(failure)?;
            let Some(seen) = self.versioned.read::<E, _>(&mut connection, 1_i64).await? else {
                return Ok(false);
            };
            drop(connection);
            let left = E::column(&seen.row, "amount")?;
            if left == 0 {
                return Ok(false);
            }
            let mut tx = self.pool.begin().await.map_err(failure)?;
            let change = Change::new().set("amount", left - 1);
            self.versioned.write(&mut tx, 1_i64, seen.version, change).await?;
            E::exec(&mut tx, &sale(buyer)).await?;
            tx.commit().await.map_err(failure)?;
            Ok(true)
        })
        .await
    }

    async fn with_lock(&self, buyer: u64) -> Result<bool> {
        let guard = self.lock.acquire().await?;
        let mut tx = self.pool.begin().await.map_err(failure)?;
        // A holder before us that was paused is refused from here on, and so are we if we were.
        self.fence.check(&mut tx, 1_i64, guard.token()).await?.into_result()?;
        let left = E::number(&mut tx, SELECT).await?;
        let sold = take::<E>(&mut tx, left, buyer).await?;
        tx.commit().await.map_err(failure)?;
        guard.release().await?;
        Ok(sold)
    }

    async fn unprotected(&self, buyer: u64) -> Result<bool> {
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        let left = E::number(&mut connection, SELECT).await?;
        // Long enough for others to see the same.
        tokio::time::sleep(Duration::from_millis(20)).await;
        take::<E>(&mut connection, left, buyer).await
    }

    /// Looks into the books: the check that runs every night, or after each loss of a lock.
    pub(crate) async fn books(&self) -> Result<Books> {
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        let stocked = "SELECT stocked FROM leasehold_stock WHERE item = 1";
        Ok(Books {
            stocked: E::number(&mut connection, stocked).await?,
            left: E::number(&mut connection, SELECT).await?,
            sold: E::number(&mut connection, SOLD).await?,
        })
    }

    /// Sets right what the books say, in one transaction: the latest sales that no piece is there
    /// for are cancelled, and the row gets what is left. How many were cancelled; these buyers have
    /// to be told.
    pub(crate) async fn repair(&self) -> Result<i64> {
        let mut tx = self.pool.begin().await.map_err(failure)?;
        for_update(&mut tx, SELECT, Wait::AsSet).await?;
        let stocked = "SELECT stocked FROM leasehold_stock WHERE item = 1";
        let stocked = E::number(&mut tx, stocked).await?;
        let mut cancelled = 0;
        while E::number(&mut tx, SOLD).await? > stocked {
            let latest = "SELECT MAX(buyer) FROM leasehold_sales WHERE item = 1 AND state = 'sold'";
            let latest = E::number(&mut tx, latest).await?;
            let cancel =
                format!("UPDATE leasehold_sales SET state = 'cancelled' WHERE buyer = {latest}");
            E::exec(&mut tx, &cancel).await?;
            cancelled += 1;
        }
        let left = stocked - E::number(&mut tx, SOLD).await?;
        E::exec(&mut tx, &taken(left)).await?;
        tx.commit().await.map_err(failure)?;
        Ok(cancelled)
    }
}

const SOLD: &str = "SELECT COUNT(*) FROM leasehold_sales WHERE item = 1 AND state = 'sold'";

/// Writes one piece less, and the sale, if there is one.
async fn take<E: Talk>(connection: &mut E::Connection, left: i64, buyer: u64) -> Result<bool> {
    if left > 0 {
        E::exec(connection, &taken(left - 1)).await?;
        E::exec(connection, &sale(buyer)).await?;
    }
    Ok(left > 0)
}

fn taken(left: i64) -> String {
    format!("UPDATE leasehold_stock SET amount = {left}, version = version + 1 WHERE item = 1")
}

fn sale(buyer: u64) -> String {
    format!("INSERT INTO leasehold_sales (buyer, item, state) VALUES ({buyer}, 1, 'sold')")
}

/// What the shop says to any of the engines; a program for one of them calls `sqlx` itself.
pub(crate) trait Talk: Engine {
    /// Runs a statement.
    fn exec(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<()>> + Send;
    /// Asks for one number.
    fn number(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<i64>> + Send;
    /// A number of a row.
    fn column(row: &Self::Row, name: &str) -> Result<i64>;
}

macro_rules! talk {
    ($($engine:ty),*) => {$(
        impl Talk for $engine {
            async fn exec(connection: &mut Self::Connection, sql: &str) -> Result<()> {
                connection.execute(sql).await.map(drop).map_err(failure)
            }

            async fn number(connection: &mut Self::Connection, sql: &str) -> Result<i64> {
                sqlx::query_scalar(sql).fetch_one(connection).await.map_err(failure)
            }

            fn column(row: &Self::Row, name: &str) -> Result<i64> {
                sqlx::Row::try_get(row, name).map_err(failure)
            }
        }
    )*};
}
talk!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);
