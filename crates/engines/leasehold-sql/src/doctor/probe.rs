//! A database that is checked: sends statements, and classifies missing answers.

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Error, Result};

use crate::address::{Address, Target};
use crate::connection::{Connection, Reply, Value};
use crate::dialect::Dialect;
use crate::error::{Fault, sort, sort_connecting};

/// How long connecting, and each answer, may take.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// How often the round trip is measured.
const ROUNDS: usize = 11;
/// A median round trip above this makes locks slower than they need to be.
const FAR: Duration = Duration::from_millis(50);
/// Clocks that differ by more than this are reported.
const APART: Duration = Duration::from_secs(1);

/// A database that answers, and the findings about it.
pub(super) struct Probe {
    connection: Connection,
    /// An answer did not arrive in time. Each further statement would wait as long.
    is_silent: bool,
    pub(super) dialect: Dialect,
    pub(super) diagnosis: Diagnosis,
}

impl Probe {
    /// Connects as a client does.
    pub(super) async fn reach(target: &Target, address: &Address) -> Result<Self> {
        let connecting = tokio::time::timeout(LIMIT, Connection::open(target)).await;
        let connection = match connecting {
            Ok(opened) => opened.map_err(sort_connecting)?,
            Err(_elapsed) => return Err(Fault::late().into()),
        };
        let diagnosis = Diagnosis::at(&address.place);
        Ok(Self { connection, is_silent: false, dialect: address.tables.dialect, diagnosis })
    }

    /// Returns true if the database left a statement without an answer.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Runs one statement, and waits at most 5 s for its answer. After an error the connection can
    /// be used again; after a missing answer it sends nothing more.
    pub(super) async fn run(&mut self, statement: &str) -> Result<Vec<Reply>, Fault> {
        if self.is_silent {
            return Err(Fault::late());
        }
        let running = tokio::time::timeout(LIMIT, self.connection.run(statement)).await;
        match running {
            Ok(Ok(replies)) => Ok(replies),
            Ok(Err(error)) => Err(sort(error)),
            Err(_elapsed) => {
                self.is_silent = true;
                Err(Fault::late())
            }
        }
    }

    /// Returns one number. Returns `None`, without a note, if the user may not read it or the
    /// database does not know it.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(super) async fn try_number(&mut self, expression: &str) -> Option<i64> {
        match self.value(&self.as_number(expression)).await {
            Ok(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// Returns one number. If that fails, notes `what` as not checked.
    pub(super) async fn number(&mut self, what: &str, expression: &str) -> Option<i64> {
        match self.value(&self.as_number(expression)).await {
            Ok(Value::Number(number)) => Some(number),
            Ok(_) => None,
            Err(error) => {
                self.diagnosis.unseen(what, error.message());
                None
            }
        }
    }

    /// Returns one text. If that fails, notes `what` as not checked.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(super) async fn text(&mut self, what: &str, expression: &str) -> Option<String> {
        match self.value(&self.as_text(expression)).await {
            Ok(Value::Bytes(bytes)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(_) => None,
            Err(error) => {
                self.diagnosis.unseen(what, error.message());
                None
            }
        }
    }

    async fn value(&mut self, statement: &str) -> Result<Value, Error> {
        let replies = self.run(statement).await?;
        let first = replies.into_iter().find_map(|reply| reply.rows.into_iter().next());
        Ok(first.and_then(|row| row.into_iter().next()).unwrap_or(Value::Null))
    }

    fn as_number(&self, expression: &str) -> String {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("SELECT ({expression})::BIGINT"),
            #[cfg(feature = "mysql")]
            Dialect::MySql => format!("SELECT CAST({expression} AS SIGNED)"),
            #[cfg(feature = "sqlite")]
            Dialect::Sqlite => format!("SELECT CAST({expression} AS INTEGER)"),
        }
    }

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    fn as_text(&self, expression: &str) -> String {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("SELECT convert_to(({expression})::TEXT, 'UTF8')"),
            #[cfg(feature = "mysql")]
            Dialect::MySql => format!("SELECT CAST({expression} AS BINARY)"),
            #[cfg(feature = "sqlite")]
            Dialect::Sqlite => format!("SELECT CAST({expression} AS BLOB)"),
        }
    }

    /// Measures the round trip to the database, and how far its clock differs.
    pub(super) async fn measure(&mut self) {
        let clock = Clock::system();
        let expression = self.dialect.now();
        let (mut trips, mut best) = (Vec::new(), None::<(Duration, i64)>);
        for _ in 0..ROUNDS {
            let asked = clock.now();
            let Some(theirs) = self.number("the database's clock", expression).await else {
                return;
            };
            let came = clock.now();
            let trip = Duration::from_nanos(came.steady_ns.saturating_sub(asked.steady_ns));
            trips.push(trip);
            let middle = asked.unix_us() as i64 + trip.as_micros() as i64 / 2;
            if best.is_none_or(|(shortest, _)| trip < shortest) {
                best = Some((trip, theirs - middle));
            }
        }
        trips.sort();
        let middle = trips[trips.len() / 2];
        if middle > FAR {
            self.diagnosis.warning(
                "far",
                format!("an answer takes {middle:.1?} (median of {ROUNDS})"),
                "each acquire and release waits that long",
                "use a database near its clients",
            );
        }
        let Some((trip, ahead_us)) = best else { return };
        let apart = Duration::from_micros(ahead_us.unsigned_abs());
        if apart.saturating_sub(trip / 2) > APART {
            let how = if ahead_us > 0 { "ahead of" } else { "behind" };
            self.diagnosis.warning(
                "clock",
                format!("its clock is {:.1} s {how} the local clock", apart.as_secs_f64()),
                "leases end by the database's clock, and tokens start at it: if it is corrected by a \
                 step, leases end early or late",
                "find out which clock is wrong, and let NTP slew it",
            );
        }
    }
}
