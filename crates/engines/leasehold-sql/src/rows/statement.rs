//! Builds a statement from words, names and values; names are quoted, values are never in the text.

use leasehold_core::{Error, ErrorKind, Result};
use sqlx::{Arguments, Encode, Type};

use super::engine::Engine;
use super::failure::failure;
use super::name::Identifier;

/// A statement for any of the databases: names are quoted as the database needs it, and a value
/// becomes a placeholder. Errors are reported when it runs.
pub struct Statement<'q, E: Engine> {
    sql: String,
    arguments: E::Arguments<'q>,
    /// The first error.
    problem: Option<Error>,
}

impl<'q, E: Engine> Statement<'q, E> {
    /// Begins with these words.
    pub fn new(words: &str) -> Self {
        Self { sql: words.to_owned(), arguments: E::Arguments::default(), problem: None }
    }

    /// Appends these words, which are not values.
    #[must_use]
    pub fn words(mut self, words: &str) -> Self {
        self.sql.push_str(words);
        self
    }

    /// Appends this name.
    #[must_use]
    pub fn name(mut self, name: &Identifier) -> Self {
        name.quote(E::QUOTE, &mut self.sql);
        self
    }

    /// Appends a value.
    #[must_use]
    pub fn value<T: Encode<'q, E> + Type<E> + 'q>(self, value: T) -> Self {
        let added =
            |arguments: &mut E::Arguments<'q>| arguments.add(value).map_err(sqlx::Error::Encode);
        self.add(|arguments| added(arguments).map_err(failure))
    }

    /// Appends an integer.
    #[must_use]
    pub fn integer(self, value: i64) -> Self {
        self.add(|arguments| E::add(arguments, value))
    }

    /// Appends a text.
    #[must_use]
    pub fn text(self, value: &'q str) -> Self {
        self.add(|arguments| E::add_text(arguments, value))
    }

    /// Appends rows of two columns, for an `INSERT`.
    pub(super) fn pairs(self, rows: &[(&'q str, &'q [u8])]) -> Self {
        if E::ARRAYS {
            let (texts, bytes) = rows.iter().copied().unzip();
            let select = self.words("SELECT * FROM UNNEST(");
            let select = select.add(|arguments| E::add_texts(arguments, texts)).words("::text[], ");
            return select.add(|arguments| E::add_all_bytes(arguments, bytes)).words("::bytea[])");
        }
        let mut insert = self.words("VALUES ");
        for (at, (text, bytes)) in rows.iter().enumerate() {
            let insert_one = insert.words(if at == 0 { "(" } else { ", (" }).text(text).words(", ");
            insert = insert_one.add(|arguments| E::add_bytes(arguments, bytes)).words(")");
        }
        insert
    }

    fn add(mut self, add: impl FnOnce(&mut E::Arguments<'q>) -> Result<()>) -> Self {
        let added = add(&mut self.arguments).and_then(|()| {
            let wrote = self.arguments.format_placeholder(&mut self.sql);
            wrote
                .map_err(|_| Error::new(ErrorKind::Invalid, "cannot bind a value of the statement"))
        });
        self.problem = self.problem.or(added.err());
        self
    }

    /// Runs the statement; returns how many rows it matched. `persistent` keeps it prepared at the
    /// server.
    ///
    /// # Errors
    /// As [`failure()`].
    pub async fn run(self, connection: &mut E::Connection, persistent: bool) -> Result<u64> {
        match self.problem {
            None => E::run(connection, self.sql, self.arguments, persistent).await,
            Some(problem) => Err(problem),
        }
    }

    /// Runs the statement; returns its rows.
    ///
    /// # Errors
    /// As [`failure()`].
    pub async fn rows(
        self,
        connection: &mut E::Connection,
        persistent: bool,
    ) -> Result<Vec<E::Row>> {
        match self.problem {
            None => E::rows(connection, self.sql, self.arguments, persistent).await,
            Some(problem) => Err(problem),
        }
    }
}

impl<E: Engine> std::fmt::Debug for Statement<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statement").field("sql", &self.sql).finish_non_exhaustive()
    }
}
