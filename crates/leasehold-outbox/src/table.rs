//! The outbox table: its columns, and how it is created.

use leasehold::rows::{Engine, Identifier, Statement};
use sqlx::Pool;

use crate::Result;

/// The columns that an insert sets; `id` is generated, and `problem` is empty.
pub(super) const COLUMNS: &str = "cache, name, hold_ms, queued_us, due_us, tries";

/// The table in which invalidations wait for a [`Relay`](crate::Relay), in the database of the
/// cached rows. Its default name is `leasehold_cache_outbox`.
///
/// | column | what it holds |
/// |---|---|
/// | `id` | a number that is never reused |
/// | `cache`, `name` | prefix and name of the cache, and the key |
/// | `hold_ms` | how long no process may fill the key after the invalidation |
/// | `queued_us` | when the row was inserted, by the database clock, in µs since the Unix epoch |
/// | `due_us` | when a relay may take it: 0 at first, later while a relay has it; NULL if parked |
/// | `tries` | how often it was refused |
/// | `problem` | why it was refused |
#[derive(Clone, Debug)]
pub struct Outbox {
    pub(super) table: Identifier,
    pub(super) notify: bool,
    pub(super) persistent: bool,
}

/// A row that was refused too often. It waits until an operator inspects it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parked {
    /// The number of the row.
    pub id: i64,
    /// The prefix and name of the cache.
    pub cache: String,
    /// The key.
    pub key: String,
    /// Why the row was refused.
    pub problem: String,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbox {
    /// Names the table `leasehold_cache_outbox`.
    pub fn new() -> Self {
        match Identifier::table("leasehold_cache_outbox") {
            Ok(table) => Self { table, notify: true, persistent: true },
            Err(error) => unreachable!("{error}"),
        }
    }

    /// Names another table, optionally with its schema before it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that is not allowed.
    pub fn named(table: &str) -> Result<Self> {
        let table = Identifier::table(table).map_err(crate::error::database_failed)?;
        Ok(Self { table, ..Self::new() })
    }

    /// Sets whether `NOTIFY` wakes relays on PostgreSQL; default true. If false, relays check the
    /// table every [`poll`](crate::RelayBuilder::poll). Transactions that notify commit one after
    /// the other, which limits programs with some thousand commits per second.
    #[must_use]
    pub fn notify(mut self, notify: bool) -> Self {
        self.notify = notify;
        self
    }

    /// Sets whether the server keeps statements prepared; default true. Set false behind a pooler
    /// in transaction mode that does not support prepared statements. Also set false if the pool
    /// caches no statements (`statement_cache_capacity(0)`): otherwise each call leaves a prepared
    /// statement on the server.
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Creates the table and its index unless they exist.
    ///
    /// # Errors
    /// [`ErrorKind::Database`](crate::ErrorKind::Database) with the error of the database.
    pub async fn create<E: Engine>(&self, pool: &Pool<E>) -> Result<()> {
        let mut connection = pool
            .acquire()
            .await
            .map_err(leasehold::rows::failure)
            .map_err(crate::error::database_failed)?;
        for statement in self.statements::<E>() {
            let create = Statement::<E>::new(&statement);
            create.run(&mut connection, false).await.map_err(crate::error::database_failed)?;
        }
        Ok(())
    }

    /// Returns the statements that create the table and its index, for a migration.
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

    /// Returns the name of the index: without a schema, and short enough for all databases.
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
