//! Checks the columns of ShedLock's table: with other types its times would not mean the same to all clients.

use leasehold_core::{Error, ErrorKind, Result};

use crate::connection::Value;
#[cfg(feature = "postgres")]
use crate::dialect::Dialect;
use crate::maintenance::MAKING;
use crate::pool::Lane;
use crate::shedlock_table::{SHORTEST, ShedLockTable};
use crate::store::Store;

/// What a client must know of the table.
#[derive(Debug)]
pub(crate) struct Found {
    /// The longest name, in characters; `None` if there is no limit.
    pub(crate) longest: Option<u64>,
    /// The longest `locked_by`, likewise.
    pub(crate) widest: Option<usize>,
    /// The step of `locked_at`, in microseconds.
    pub(crate) tick_us: u64,
    pub(crate) warnings: Vec<String>,
}

const TIMES: &str = "in ShedLock's table lock_until and locked_at must be TIMESTAMP, without a time zone, with at least 3 digits (on \
                     MySQL TIMESTAMP(3) or DATETIME(3)): with another type each session reads another time, or times are rounded; \
                     change the columns (ALTER TABLE)";
const NO_TABLE: &str = "there is no table of ShedLock with these columns; create it as ShedLock's documentation says, or name it with \
                        table=NAME and columns=A,B,C,D";
const NO_KEY: &str = "the name in ShedLock's table must be its primary key, of text; otherwise two programs may hold one lock";

/// What every user must know: the table does not show it.
const DB_TIME: &str =
    "wire=shedlock excludes only programs that build their lock provider with usingDbTime()";
const ZONES: &str = "the times in ShedLock's table are TIMESTAMP columns, which MySQL converts by the time_zone of each session: all \
                     clients must have the same one; DATETIME(3) columns do not depend on it";

/// Checks the table.
///
/// # Errors
/// [`ErrorKind::Refused`] if there is no such table or column, or a column has a type that does not work.
pub(crate) async fn check(store: &Store, table: &ShedLockTable) -> Result<Found> {
    let packet = table.dialect.plain(&[query(table)]);
    let replies = store.run(Lane::Usual, &packet, store.within(MAKING)).await?;
    let rows = replies.first().map(|reply| &reply.rows[..]).unwrap_or_default();
    let columns: Vec<[i64; 4]> = rows.iter().filter_map(|row| numbers(row)).collect();
    let [name, until, at, by] = columns[..] else { return Err(refused(NO_TABLE)) };
    if [name, until, at, by].iter().any(|column| column[0] == 0) {
        return Err(refused(NO_TABLE));
    }
    if name[0] != TEXT || name[3] == 0 || by[0] != TEXT {
        return Err(refused(NO_KEY));
    }
    let widest = usize::try_from(by[1]).ok();
    if let Some(width) = widest.filter(|width| *width < SHORTEST) {
        return Err(too_narrow(&table.columns[3], width));
    }
    let is_time = |column: [i64; 4]| [TIME, ZONED].contains(&column[0]) && column[2] >= 3;
    if !is_time(until) || !is_time(at) {
        return Err(refused(TIMES));
    }
    let mut warnings = vec![DB_TIME.to_owned()];
    if until[0] == ZONED || at[0] == ZONED {
        warnings.push(ZONES.to_owned());
    }
    let tick_us = if is_exact(table) && at[2].min(until[2]) >= 6 { 1 } else { 1000 };
    Ok(Found { longest: u64::try_from(name[1]).ok(), widest, tick_us, warnings })
}

/// A type of text, one of times, and one of times that depend on the session but may be used.
const TEXT: i64 = 1;
const TIME: i64 = 2;
const ZONED: i64 = 3;

/// Returns true if ShedLock's time has microseconds there.
fn is_exact(table: &ShedLockTable) -> bool {
    match table.dialect {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => true,
        #[allow(unreachable_patterns, reason = "there may be one engine only")]
        _ => false,
    }
}

/// Builds the query for the type, the length, the digits of seconds, and whether it is a key, of each column in order. The
/// type is 0 if there is no such column, and -1 for any other one.
fn query(table: &ShedLockTable) -> String {
    let ShedLockTable { dialect, table: place, columns } = table;
    let wanted: Vec<String> = (1..)
        .zip(columns)
        .map(|(at, column)| match dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("({at}, '{}')", column.to_ascii_lowercase()),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!("SELECT {at} AS place, '{column}' AS name"),
        })
        .collect();
    match dialect {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => format!(
            "SELECT (CASE a.atttypid WHEN 1043 THEN {TEXT} WHEN 25 THEN {TEXT} WHEN 1114 THEN {TIME} ELSE CASE WHEN a.attnum IS NULL \
             THEN 0 ELSE -1 END END)::BIGINT, \
             (CASE WHEN a.atttypid = 1043 AND a.atttypmod > 4 THEN a.atttypmod - 4 ELSE -1 END)::BIGINT, \
             (CASE WHEN a.atttypmod < 0 THEN 6 ELSE a.atttypmod END)::BIGINT, \
             (CASE WHEN EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indnatts = 1 \
             AND i.indkey[0] = a.attnum) THEN 1 ELSE 0 END)::BIGINT \
             FROM (VALUES {}) AS w(place, name) LEFT JOIN pg_attribute a ON a.attrelid = to_regclass('{place}') \
             AND a.attname = w.name AND NOT a.attisdropped ORDER BY w.place",
            wanted.join(", ")
        ),
        #[allow(unreachable_patterns, reason = "there may be one engine only")]
        _ => {
            let (schema, name) = match place.split_once('.') {
                Some((schema, name)) => (format!("'{schema}'"), name),
                None => ("DATABASE()".to_owned(), place.as_str()),
            };
            format!(
                "SELECT CAST(CASE WHEN c.data_type IN ('varchar', 'char', 'text') THEN {TEXT} WHEN c.data_type = 'datetime' THEN {TIME} \
                 WHEN c.data_type = 'timestamp' THEN {ZONED} WHEN c.data_type IS NULL THEN 0 ELSE -1 END AS SIGNED), \
                 CAST(COALESCE(c.character_maximum_length, -1) AS SIGNED), CAST(COALESCE(c.datetime_precision, 0) AS SIGNED), \
                 CAST(COALESCE(c.column_key IN ('PRI', 'UNI'), 0) AS SIGNED) \
                 FROM ({}) AS w LEFT JOIN information_schema.columns c ON c.table_schema = {schema} AND c.table_name = '{name}' \
                 AND c.column_name = w.name ORDER BY w.place",
                wanted.join(" UNION ALL ")
            )
        }
    }
}

fn numbers(row: &[Value]) -> Option<[i64; 4]> {
    let numbers: Vec<i64> = row.iter().filter_map(|value| value.number().ok()).collect();
    numbers.try_into().ok()
}

fn too_narrow(column: &str, width: usize) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "the column {column} of ShedLock's table has room for {width} characters, and a client writes at least {SHORTEST}; \
             widen it (ALTER TABLE), to 255 as in ShedLock's documentation"
        ),
    )
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::Refused, what)
}
