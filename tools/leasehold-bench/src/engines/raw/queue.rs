//! The least that a fair lock with push takes on PostgreSQL: a row for the lock, a row for each waiter, a function that
//! takes the lock or queues, and one that hands it on and notifies. The server plans their statements once. No end
//! of a lease, no fencing token, no repetition after a lost answer, no readers.

use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection, Row as _};

use crate::Result;
use crate::engines::load::{Engine, Taker};
use crate::store::StoreAddress;

const TABLES: &str = "\
CREATE TABLE IF NOT EXISTS raw_fair (name TEXT PRIMARY KEY, owner TEXT);
CREATE TABLE IF NOT EXISTS raw_line (ticket BIGSERIAL PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL);
CREATE OR REPLACE FUNCTION raw_take(a_name TEXT, an_owner TEXT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
  UPDATE raw_fair SET owner = an_owner WHERE name = a_name AND owner IS NULL;
  IF FOUND THEN RETURN TRUE; END IF;
  PERFORM 1 FROM raw_fair WHERE name = a_name FOR UPDATE;
  UPDATE raw_fair SET owner = an_owner WHERE name = a_name AND owner IS NULL;
  IF FOUND THEN RETURN TRUE; END IF;
  INSERT INTO raw_line (name, owner) VALUES (a_name, an_owner);
  RETURN FALSE;
END $$;
CREATE OR REPLACE FUNCTION raw_pass(a_name TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE next TEXT;
BEGIN
  PERFORM 1 FROM raw_fair WHERE name = a_name FOR UPDATE;
  DELETE FROM raw_line WHERE ticket = (SELECT ticket FROM raw_line WHERE name = a_name ORDER BY ticket LIMIT 1)
    RETURNING owner INTO next;
  UPDATE raw_fair SET owner = next WHERE name = a_name;
  IF next IS NOT NULL THEN PERFORM pg_notify(next, ''); END IF;
END $$";

/// Makes the channels of all takers different.
static TAKERS: AtomicU64 = AtomicU64::new(0);

pub(super) struct Queue {
    url: String,
    connection: PgConnection,
}

impl Engine for Queue {
    type Taker = Place;

    async fn open(place: &StoreAddress) -> Result<Self> {
        let mut connection = PgConnection::connect(&place.url).await?;
        connection.execute(sqlx::raw_sql(TABLES)).await?;
        Ok(Self { url: place.url.clone(), connection })
    }

    fn taker(&self, name: String) -> Place {
        let owner = format!("raw_{}", TAKERS.fetch_add(1, Ordering::Relaxed));
        Place { url: self.url.clone(), name, owner, ways: None }
    }

    async fn ask(&mut self) -> Result<bool> {
        sqlx::query("SELECT 1").execute(&mut self.connection).await?;
        Ok(true)
    }

    async fn close(self) {
        self.connection.close().await.ok();
    }
}

/// A task's place in the line of one lock.
pub(super) struct Place {
    url: String,
    name: String,
    owner: String,
    ways: Option<Ways>,
}

/// Where it is notified, and where it asks.
struct Ways {
    listener: PgListener,
    connection: PgConnection,
}

impl Place {
    async fn connected(&mut self) -> Result<&mut Ways> {
        if self.ways.is_none() {
            let mut listener = PgListener::connect(&self.url).await?;
            listener.listen(&self.owner).await?;
            let mut connection = PgConnection::connect(&self.url).await?;
            let row = format!(
                "INSERT INTO raw_fair (name) VALUES ('{}') ON CONFLICT DO NOTHING",
                self.name
            );
            connection.execute(sqlx::raw_sql(&row)).await?;
            self.ways = Some(Ways { listener, connection });
        }
        self.ways.as_mut().ok_or_else(|| "connected just now".into())
    }
}

impl Taker for Place {
    async fn acquire(&mut self) -> Result<()> {
        let take = format!("SELECT raw_take('{}', '{}')", self.name, self.owner);
        let Ways { listener, connection } = self.connected().await?;
        let row = connection.fetch_one(sqlx::raw_sql(&take)).await?;
        if !row.try_get::<bool, _>(0)? {
            listener.recv().await?;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let pass = format!("SELECT raw_pass('{}')", self.name);
        self.connected().await?.connection.execute(sqlx::raw_sql(&pass)).await?;
        Ok(())
    }
}
