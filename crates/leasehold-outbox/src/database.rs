//! The outbox of a database URL.

use futures_util::future::BoxFuture;
use leasehold::rows::{self, Engine, Visit};
use sqlx::Pool;

use crate::Result;
use crate::relay::Relay;
use crate::relay::RelayBuilder;
use crate::table::Outbox;

/// A database with this URL: `postgres://…`, `mysql://…` or `sqlite:/path`, with the connection
/// options of store URLs.
#[derive(Clone, Debug)]
pub struct Database(rows::Database);

impl Database {
    /// Opens the database of `url`, without connecting to it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that cannot be parsed, or whose
    /// database is not in this build.
    pub fn open(url: &str) -> Result<Self> {
        rows::Database::open(url).map(Self).map_err(crate::error::database_failed)
    }

    /// Returns the settings for a relay of this table, as [`Relay::builder`] does.
    pub fn relay(&self, outbox: &Outbox) -> RelayBuilder {
        self.0.clone().visit(Builder(outbox))
    }

    /// Creates the table and its index unless they exist, as [`Outbox::create`] does.
    ///
    /// # Errors
    /// [`ErrorKind::Database`](crate::ErrorKind::Database) with the error of the database.
    pub async fn create(&self, outbox: &Outbox) -> Result<()> {
        self.0.clone().visit(Create(outbox)).await
    }

    /// Returns the statements that create the table, as [`Outbox::statements`] does.
    pub fn statements(&self, outbox: &Outbox) -> Vec<String> {
        self.0.clone().visit(Statements(outbox))
    }
}

struct Builder<'a>(&'a Outbox);

impl Visit for Builder<'_> {
    type Output = RelayBuilder;

    fn visit<E: Engine>(self, pool: Pool<E>) -> Self::Output {
        // The pool keeps no statements, and would leave each one behind at the server.
        Relay::builder(&self.0.clone().persistent(false), &pool)
    }
}

struct Create<'a>(&'a Outbox);

impl<'a> Visit for Create<'a> {
    type Output = BoxFuture<'a, Result<()>>;

    fn visit<E: Engine>(self, pool: Pool<E>) -> Self::Output {
        Box::pin(async move { self.0.create(&pool).await })
    }
}

struct Statements<'a>(&'a Outbox);

impl Visit for Statements<'_> {
    type Output = Vec<String>;

    fn visit<E: Engine>(self, _: Pool<E>) -> Self::Output {
        self.0.statements::<E>()
    }
}
