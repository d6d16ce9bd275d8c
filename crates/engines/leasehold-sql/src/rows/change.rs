//! Columns and their new values.

use leasehold_core::Result;
use sqlx::{Encode, Type};

use super::engine::Engine;
use super::name::Identifier;
use super::statement::Statement;

/// The columns that an optimistic write changes, besides the version.
pub struct Change<'q, E: Engine> {
    columns: Vec<Assignment<'q, E>>,
}

/// Appends `"column" = value, ` to a statement.
type Assignment<'q, E> = Box<dyn FnOnce(Statement<'q, E>) -> Result<Statement<'q, E>> + Send + 'q>;

impl<'q, E: Engine> Change<'q, E> {
    /// Creates a change of the version alone.
    pub fn new() -> Self {
        Self { columns: Vec::new() }
    }

    /// Adds this column. An invalid name is an error of the write.
    #[must_use]
    pub fn set<T>(mut self, column: &str, value: T) -> Self
    where
        T: Encode<'q, E> + Type<E> + Send + 'q,
    {
        let column = Identifier::column("column", column);
        self.columns.push(Box::new(move |statement| {
            Ok(statement.name(&column?).words(" = ").value(value).words(", "))
        }));
        self
    }

    pub(super) fn write(self, statement: Statement<'q, E>) -> Result<Statement<'q, E>> {
        self.columns.into_iter().try_fold(statement, |statement, column| column(statement))
    }
}

impl<E: Engine> Default for Change<'_, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Engine> std::fmt::Debug for Change<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change").field("columns", &self.columns.len()).finish()
    }
}
