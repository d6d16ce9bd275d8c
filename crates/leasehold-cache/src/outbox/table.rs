//! The outbox table: its columns, and how it is made.

use leasehold::rows::{Engine, Identifier, Statement};
use sqlx::Pool;

use crate::{Error, Result};

/// The columns that are given when a row is put in; `id` numbers itself, `problem` is none.
pub(super) const COLUMNS: &str = "cache, name, hold_ms, queued_us, due_us, tries";

/// The table in which invalidations wait for a [`Relay`](super::Relay): `leasehold_cache_outbox`
/// unless named otherwise, in the database of the rows that are cached.
///
/// | column | what it holds |
/// |---|---|
/// | `id` | a number that is never given twice |
/// | `cache`, `name` | prefix and name of the cache, and the key |
/// | `hold_ms` | how long nobody fills it after that |
/// | `queued_us` | when it was put in, by the database's clock, microseconds since the Unix epoch |
/// | `due_us` | when a relay may take it: 0 at first, later while one has it; none when it is parked |
/// | `tries` | how often it was refused |
/// | `problem` | why |
#[derive(Clone, Debug)]
pub struct Outbox {
    pub(super) table: Identifier,
    pub(super) notify: bool,
    pub(super) persistent: bool,
}

/// A row that was refused too often, and waits for somebody to look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parked {
    /// Its number.
    pub id: i64,
    /// Prefix and name of the cache.
    pub cache: String,
    /// The key.
    pub key: String,
    /// Why it was refused.
    pub problem: String,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbox {
    /// The table `leasehold_cache_outbox`.
    pub fn new() -> Self {
        match Identifier::table("leasehold_cache_outbox") {
            Ok(table) => Self { table, notify: true, persistent: true },
            Err(error) => unreachable!("{error}"),
        }
    }

    /// The table of this name, which may have its schema before it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for what is no name.
    pub fn named(table: &str) -> Result<Self> {
        let table = Identifier::table(table).map_err(Error::database)?;
        Ok(Self { table, ..Self::new() })
    }

    /// Whether relays on PostgreSQL are woken by `NOTIFY`; default true. Without it they look as often
    /// as [`poll`](super::RelayBuilder::poll) says. Transactions that notify commit one after the
    /// other, which some thousand commits a second feel.
    pub fn notify(mut self, notify: bool) -> Self {
        self.notify = notify;
        self
    }

    /// Whether statements stay prepared at the server; default true. Behind a pooler in transaction mode
    /// that does not know prepared statements, they must not; nor where the pool keeps none itself
    /// (`statement_cache_capacity(0)`): each would be left behind at the server.
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Makes the table and its index unless they are there.
    ///
    /// # Errors
    /// [`ErrorKind::Database`](crate::ErrorKind::Database) with what the database says.
    pub async fn create<E: Engine>(&self, pool: &Pool<E>) -> Result<()> {
        let mut connection =
            pool.acquire().await.map_err(leasehold::rows::failure).map_err(Error::database)?;
        for statement in self.statements::<E>() {
            let create = Statement::<E>::new(&statement);
            create.run(&mut connection, false).await.map_err(Error::database)?;
        }
        Ok(())
    }

    /// The statements that make them, for those who do it by hand or in a migration.
    pub fn statements<E: Engine>(&self) -> Vec<String> {
        let (table, index) = (self.table.quoted(E::QUOTE), self.index());
        let (text, serial) = (E::RESOURCE, E::SERIAL);
        let inside = if E::INDEX_INSIDE {
            format!(",\n  INDEX {index} (due_us, id)")
        } else {
            String::new()
        };
        let mut statements = vec![format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  id {serial},\n  cache {text} NOT NULL,\n  \
             name {text} NOT NULL,\n  hold_ms BIGINT NOT NULL,\n  queued_us BIGINT NOT NULL,\n  \
             due_us BIGINT,\n  tries BIGINT NOT NULL,\n  problem {text}{inside}\n){}",
            E::TABLE_OPTIONS
        )];
        if !E::INDEX_INSIDE {
            let (index, table) = match self.table.to_string().split_once('.') {
                // SQLite wants the schema there, and nowhere else.
                Some((schema, table)) if E::ONE_WRITER => {
                    let quote = E::QUOTE;
                    let schema = format!("{quote}{schema}{quote}");
                    (format!("{schema}.{index}"), format!("{quote}{table}{quote}"))
                }
                _ => (index, table),
            };
            let create = format!("CREATE INDEX IF NOT EXISTS {index} ON {table} (due_us, id)");
            statements.push(create);
        }
        statements
    }

    /// The index's name: no schema, and short enough for all databases.
    fn index(&self) -> String {
        let name = self.table.to_string();
        let name = name.rsplit('.').next().unwrap_or_default();
        let mut end = name.len().min(59);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}_due", &name[..end])
    }
}
