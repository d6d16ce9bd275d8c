//! SQL: a row with its owner and its end, inserted if there is none, taken over when its end has come.
//! Who has to wait asks again. No fencing token.

use std::time::Duration;

use sqlx::AnyPool;
use sqlx::any::AnyPoolOptions;

use crate::Result;
use crate::engines::load::{Engine, Taker};
use crate::store::StoreAddress;

/// Who has to wait asks again after this.
const PAUSE: Duration = Duration::from_millis(10);
/// As many as ours has by default.
const CONNECTIONS: u32 = 8;

/// The transaction was chosen to give way, and is to be tried again.
const GIVE_WAY: &str = "40001";

/// What the engines write differently.
#[derive(Clone, Copy, Debug)]
struct Words {
    insert: &'static str,
    update: &'static str,
    delete: &'static str,
}

const POSTGRES: Words = Words {
    insert: "INSERT INTO raw_locks VALUES ($1, $2, now() + INTERVAL '30 seconds') ON CONFLICT DO NOTHING",
    update: "UPDATE raw_locks SET owner = $1, ends = now() + INTERVAL '30 seconds' \
             WHERE name = $2 AND ends < now()",
    delete: "DELETE FROM raw_locks WHERE name = $1 AND owner = $2",
};

const MYSQL: Words = Words {
    insert: "INSERT IGNORE INTO raw_locks VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL 30 SECOND)",
    update: "UPDATE raw_locks SET owner = ?, ends = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND \
             WHERE name = ? AND ends < UTC_TIMESTAMP(6)",
    delete: "DELETE FROM raw_locks WHERE name = ? AND owner = ?",
};

const SQLITE: Words = Words {
    insert: "INSERT OR IGNORE INTO raw_locks VALUES (?, ?, unixepoch() + 30)",
    update: "UPDATE raw_locks SET owner = ?, ends = unixepoch() + 30 WHERE name = ? AND ends < unixepoch()",
    delete: "DELETE FROM raw_locks WHERE name = ? AND owner = ?",
};

pub(super) struct Rows {
    pool: AnyPool,
    words: Words,
}

impl Engine for Rows {
    type Taker = Row;

    async fn open(place: &StoreAddress) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let scheme = place.url.split(':').next().unwrap_or_default();
        let (words, time, connections) = match scheme {
            "mysql" => (MYSQL, "DATETIME(6)", CONNECTIONS),
            // One at a time writes.
            "sqlite" => (SQLITE, "BIGINT", 1),
            _ => (POSTGRES, "TIMESTAMPTZ", CONNECTIONS),
        };
        let url = match scheme {
            "sqlite" => format!("{}?mode=rwc", place.url),
            _ => place.url.clone(),
        };
        let pool = AnyPoolOptions::new().max_connections(connections).connect(&url).await?;
        let table = format!(
            "CREATE TABLE IF NOT EXISTS raw_locks \
             (name VARCHAR(200) PRIMARY KEY, owner VARCHAR(40) NOT NULL, ends {time} NOT NULL)"
        );
        sqlx::query(&table).execute(&pool).await?;
        Ok(Self { pool, words })
    }

    fn taker(&self, name: String) -> Row {
        Row { pool: self.pool.clone(), words: self.words, name, owner: String::new() }
    }

    async fn ask(&mut self) -> Result<bool> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(true)
    }

    async fn close(self) {
        self.pool.close().await;
    }
}

pub(super) struct Row {
    pool: AnyPool,
    words: Words,
    name: String,
    /// Ours alone, another one each time.
    owner: String,
}

impl Row {
    async fn run(&self, statement: &'static str, one: &str, other: &str) -> Result<bool> {
        loop {
            let query = sqlx::query(statement).bind(one.to_owned()).bind(other.to_owned());
            match query.execute(&self.pool).await {
                Ok(done) => return Ok(done.rows_affected() == 1),
                Err(sqlx::Error::Database(said)) if said.code().as_deref() == Some(GIVE_WAY) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Taker for Row {
    async fn acquire(&mut self) -> Result<()> {
        self.owner = format!("{:032x}", fastrand::u128(..));
        loop {
            if self.run(self.words.insert, &self.name, &self.owner).await?
                || self.run(self.words.update, &self.owner, &self.name).await?
            {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn release(&mut self) -> Result<()> {
        match self.run(self.words.delete, &self.name, &self.owner).await? {
            true => Ok(()),
            false => Err("another client has taken our row".into()),
        }
    }
}
