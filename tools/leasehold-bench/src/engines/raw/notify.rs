//! The least that a hand-off by push takes on PostgreSQL: two clients that pass a turn to and fro. Each waits for a
//! message, writes one row, and notifies the other in the same packet. No lock, no end of a lease, no line.

use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection};

use crate::Result;
use crate::pairs::{Times, Worker, drive};
use crate::store::StoreAddress;

/// Returns the turns in a second.
pub(super) async fn per_s(place: &StoreAddress, times: Times) -> Result<f64> {
    let mut first = PgConnection::connect(&place.url).await?;
    let table = "CREATE TABLE raw_turns (name TEXT PRIMARY KEY, turn BIGINT NOT NULL); \
                 INSERT INTO raw_turns VALUES ('a', 0)";
    first.execute(sqlx::raw_sql(table)).await?;
    let players = vec![
        Player::join(place, "raw_one", "raw_two").await?,
        Player::join(place, "raw_two", "raw_one").await?,
    ];
    first.execute(sqlx::raw_sql("NOTIFY raw_one")).await?;
    Ok(drive(players, times, place.server_pids()).await?.per_s)
}

/// One of the two clients.
struct Player {
    listener: PgListener,
    connection: PgConnection,
    pass: String,
}

impl Player {
    async fn join(place: &StoreAddress, own: &str, other: &str) -> Result<Self> {
        let mut listener = PgListener::connect(&place.url).await?;
        listener.listen(own).await?;
        let connection = PgConnection::connect(&place.url).await?;
        let pass = format!("UPDATE raw_turns SET turn = turn + 1 WHERE name = 'a'; NOTIFY {other}");
        Ok(Self { listener, connection, pass })
    }
}

impl Worker for Player {
    async fn pair(&mut self) -> Result<()> {
        self.listener.recv().await?;
        self.connection.execute(sqlx::raw_sql(&self.pass)).await?;
        Ok(())
    }
}
