//! Saves rows once per key, many in one statement.

use leasehold_core::{Error, ErrorKind, Result};
use sqlx::Pool;

use super::engine::Engine;
use super::failure::failure;
use super::name::Identifier;
use super::statement::Statement;

/// In bytes; an index entry of every database can hold it.
const LONGEST_ID: usize = 512;

/// A table with the columns `id` (text, the primary key) and `payload` (bytes). Each row is
/// inserted once: of several rows with the same id, the first stays.
///
/// ```no_run
/// # use leasehold_core::Error; use leasehold_sql::rows::OnceTable;
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Error> {
/// let events = OnceTable::new("events")?;
/// events.create(&pool).await?; // once; does nothing when it is there
/// events.insert(&pool, &[("event 1", b"..."), ("event 2", b"...")]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct OnceTable {
    table: Identifier,
    persistent: bool,
}

impl OnceTable {
    /// Uses a table of this name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid name.
    pub fn new(table: &str) -> Result<Self> {
        Ok(Self { table: Identifier::table(table)?, persistent: true })
    }

    /// As [`RowFence::persistent`](super::RowFence::persistent).
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Creates the table unless it exists.
    ///
    /// # Errors
    /// As [`failure`](super::failure()).
    pub fn create<E: Engine>(&self, pool: &Pool<E>) -> impl Future<Output = Result<()>> + Send {
        async move {
            let mut connection = pool.acquire().await.map_err(failure)?;
            let create = Statement::<E>::new("CREATE TABLE IF NOT EXISTS ").name(&self.table);
            let create = create.words(" (id ").words(E::ID);
            let create = create.words(" NOT NULL PRIMARY KEY, payload ").words(E::BYTES);
            let create = create.words(" NOT NULL)").words(E::TABLE_OPTIONS);
            create
                .run(&mut connection, false)
                .await
                .map_err(|error| error.during("create", None))?;
            Ok(())
        }
    }

    /// Saves rows (`id` of 1 to 512 bytes without NUL, and `payload`) in one statement, all or
    /// none. Rows whose id is in the table do not change. Pass distinct ids, sorted in the same
    /// order everywhere: transactions that insert the same ids in different orders deadlock.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: nothing was saved; repeat the call. [`ErrorKind::Invalid`] for an
    /// invalid id, or more than 16,000 rows. Others as [`failure`](super::failure()).
    pub fn insert<E: Engine>(
        &self,
        pool: &Pool<E>,
        rows: &[(&str, &[u8])],
    ) -> impl Future<Output = Result<()>> + Send {
        async move {
            let problem = match rows.iter().find(|(id, _)| !is_id(id)) {
                Some((id, _)) => {
                    Some(format!("id: {id:?}; 1 to {LONGEST_ID} bytes without NUL are allowed"))
                }
                // Each row is two values, and SQLite accepts at most 32,766.
                None if rows.len() > 16_000 => {
                    Some(format!("rows: {}; at most 16,000 are allowed", rows.len()))
                }
                None => None,
            };
            if let Some(problem) = problem {
                return Err(Error::new(ErrorKind::Invalid, problem).during("insert", None));
            }
            if rows.is_empty() {
                return Ok(());
            }
            let insert = Statement::<E>::new("INSERT INTO ").name(&self.table);
            let insert = insert.words(" (id, payload) ").pairs(rows).words(E::OR_KEEP);
            // With arrays the statement is always the same; otherwise it depends on the number of rows.
            let persistent = self.persistent && E::ARRAYS;
            let mut connection = pool.acquire().await.map_err(failure)?;
            let done = insert.run(&mut connection, persistent).await;
            done.map(drop).map_err(|error| error.during("insert", None))
        }
    }
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST_ID && !id.contains('\0')
}
