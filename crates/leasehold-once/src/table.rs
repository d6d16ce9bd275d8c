//! A table of PostgreSQL, MySQL, MariaDB or SQLite that stores the rows.

use std::error::Error as _;

use leasehold::ErrorKind as Kind;
use leasehold::rows::{Engine, OnceTable, Tries, is_row_fault, retry};
use sqlx::Pool;

use crate::save_once::{Store, StoreError};
use crate::{Error, ErrorKind, Result};

/// A table with the columns `id` and `payload`; see [`OnceTable`]. Needs one of the features
/// `mysql`, `postgres` and `sqlite`.
#[derive(Debug)]
pub struct Table<E: Engine> {
    table: OnceTable,
    pool: Pool<E>,
}

impl<E: Engine> Table<E> {
    /// Names the table in the database of `pool`; [`create`](Self::create) creates it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is not allowed.
    pub fn new(table: &str, pool: Pool<E>) -> Result<Self> {
        let table = OnceTable::new(table).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(Self { table, pool })
    }

    /// Creates the table unless it exists.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] with the error of the database.
    pub async fn create(&self) -> Result<()> {
        let made = self.table.create(&self.pool).await;
        made.map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))
    }
}

impl<E: Engine> Clone for Table<E> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), pool: self.pool.clone() }
    }
}

impl<E: Engine> Store for Table<E> {
    type Row = Vec<u8>;

    fn size(row: &Vec<u8>) -> usize {
        row.len()
    }

    async fn insert(&self, rows: &[(&str, &Vec<u8>)]) -> Result<(), StoreError> {
        let rows: Vec<(&str, &[u8])> = rows.iter().map(|(key, row)| (*key, &row[..])).collect();
        // One statement is a transaction of its own.
        let inserted = retry(Tries::default(), || self.table.insert(&self.pool, &rows));
        inserted.await.map_err(|error| {
            // What no database has said is of an id that was not sent.
            let unsent = error.kind() == Kind::Invalid && error.source().is_none();
            match unsent || is_row_fault(&error) {
                true => StoreError::Row(error.into()),
                false => StoreError::Unavailable(error.into()),
            }
        })
    }
}
