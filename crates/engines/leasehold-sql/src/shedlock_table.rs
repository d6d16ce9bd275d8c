//! The statements that ShedLock sends with `usingDbTime()`, with our conditions beside them.

use leasehold_core::{AttemptId, Name, Result, StoreUrl, Token};

use crate::dialect::Dialect;

/// The longest `locked_by`, in characters.
const LONGEST: usize = 255;
/// The shortest one: it begins with what is unique.
pub(crate) const SHORTEST: usize = BEGINS.len() + 32;
/// What a `locked_by` of ours begins with; the id of the attempt follows.
const BEGINS: &str = "leasehold:";

/// The table and its columns, as the options of the URL name them.
#[derive(Clone, Debug)]
pub(crate) struct ShedLockTable {
    pub(crate) dialect: Dialect,
    pub(crate) table: String,
    /// The name, until when it is locked, since when, and by whom.
    pub(crate) columns: [String; 4],
}

impl ShedLockTable {
    /// Takes the options of the format out of a URL. Returns `None` if it names no format.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for another format, for names that are not allowed, and for
    /// options without the format.
    pub(crate) fn take(
        dialect: Dialect,
        schema: Option<&str>,
        url: &mut StoreUrl,
    ) -> Result<Option<Self>> {
        let (wire, table, columns) = (url.take("wire"), url.take("table"), url.take("columns"));
        match wire.as_deref() {
            None => {
                let alone = [("table", &table), ("columns", &columns)];
                let Some((option, _)) = alone.iter().find(|(_, value)| value.is_some()) else {
                    return Ok(None);
                };
                return Err(StoreUrl::invalid(format!(
                    "{option} belongs to wire=shedlock; write both, or neither"
                )));
            }
            Some("shedlock") => {}
            Some(other) => {
                let meant = StoreUrl::meant(other, ["shedlock"]);
                return Err(StoreUrl::invalid(format!(
                    "wire {other:?}{meant}; shedlock is allowed"
                )));
            }
        }
        let table = table.unwrap_or_else(|| "shedlock".to_owned());
        let table = match schema {
            Some(schema) => format!("{schema}.{table}"),
            None => table,
        };
        let parts: Vec<&str> = table.split('.').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_word(part)) {
            return Err(StoreUrl::invalid(format!(
                "table {table:?}; 1 to 63 letters, digits and _ are allowed, and a schema before a dot"
            )));
        }
        let columns = columns.unwrap_or_else(|| "name,lock_until,locked_at,locked_by".to_owned());
        let four: Vec<String> = columns.split(',').map(str::to_owned).collect();
        match <[String; 4]>::try_from(four) {
            Ok(columns) if columns.iter().all(|column| is_word(column)) => {
                Ok(Some(Self { dialect, table, columns }))
            }
            _ => Err(StoreUrl::invalid(format!(
                "columns {columns:?}; four names are allowed, in this order: name,lock_until,locked_at,locked_by"
            ))),
        }
    }

    /// Returns the time of the database as ShedLock writes it.
    fn now(&self) -> &'static str {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => "timezone('utc', CURRENT_TIMESTAMP)",
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => "UTC_TIMESTAMP(3)",
        }
    }

    fn after(&self, time: &str, us: u64) -> String {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("{time} + {us} * INTERVAL '1 microsecond'"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!("TIMESTAMPADD(MICROSECOND, {us}, {time})"),
        }
    }

    /// Returns a time as microseconds since the Unix epoch, if it is one of UTC.
    fn us(&self, time: &str) -> String {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("(EXTRACT(EPOCH FROM {time}) * 1000000)::BIGINT"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time})"),
        }
    }

    /// Writes a text as a value. It compares by the collation of the column.
    pub(crate) fn text(&self, text: &str) -> String {
        let bytes = self.dialect.bytes(text.as_bytes());
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("convert_from({bytes}, 'UTF8')"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!("_utf8mb4 {bytes}"),
        }
    }

    /// Returns the bytes of a column of text.
    fn bytes_of(&self, column: &str) -> String {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("convert_to({column}, 'UTF8')"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!("CAST(CONVERT({column} USING utf8mb4) AS BINARY)"),
        }
    }

    /// Takes the lock if it is free: ShedLock's insert, and its update.
    pub(crate) fn take_free(&self, name: &Name, me: &str, ttl_us: u64) -> Vec<String> {
        let Self { dialect, table, columns: [key, until, at, by] } = self;
        let (name, me, now) = (self.text(name.as_str()), self.text(me), self.now());
        let end = self.after(now, ttl_us);
        let insert =
            format!("INTO {table}({key}, {until}, {at}, {by}) VALUES({name}, {end}, {now}, {me})");
        let update = format!(
            "SET {until} = {end}, {at} = {now}, {by} = {me} WHERE {table}.{key} = {name} AND {table}.{until} <= {now}"
        );
        match dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => {
                vec![format!("INSERT {insert} ON CONFLICT ({key}) DO UPDATE {update}")]
            }
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => vec![format!("INSERT IGNORE {insert}"), format!("UPDATE {table} {update}")],
        }
    }

    /// Extends a lock that has not ended.
    pub(crate) fn extend(&self, name: &Name, attempt: AttemptId, ttl_us: u64) -> String {
        let Self { table, columns: [_, until, ..], .. } = self;
        let (end, mine) = (self.after(self.now(), ttl_us), self.is_mine(name, attempt));
        format!("UPDATE {table} SET {until} = {end} WHERE {mine}")
    }

    /// Ends a lock that has not ended, one tick after it was taken at the earliest: the next one gets a later time.
    pub(crate) fn unlock(&self, name: &Name, attempt: AttemptId, tick_us: u64) -> String {
        let Self { table, columns: [_, until, at, _], .. } = self;
        let (now, least) = (self.now(), self.after(at, tick_us));
        let mine = self.is_mine(name, attempt);
        format!(
            "UPDATE {table} SET {until} = CASE WHEN {least} > {now} THEN {least} ELSE {now} END WHERE {mine}"
        )
    }

    /// Ends the lock of a client of Leasehold, if it was taken at this time.
    pub(crate) fn force(&self, name: &Name, token: Token, tick_us: u64) -> String {
        let Self { table, columns: [key, until, at, by], .. } = self;
        let (now, least) = (self.now(), self.after(at, tick_us));
        let (name, since) = (self.text(name.as_str()), self.us(at));
        format!(
            "UPDATE {table} SET {until} = CASE WHEN {least} > {now} THEN {least} ELSE {now} END WHERE {key} = {name} \
             AND {until} > {now} AND {by} LIKE 'leasehold:%' AND {since} = {token}"
        )
    }

    fn is_mine(&self, name: &Name, attempt: AttemptId) -> String {
        let Self { columns: [key, until, _, by], .. } = self;
        let (name, now) = (self.text(name.as_str()), self.now());
        format!("{key} = {name} AND {by} LIKE 'leasehold:{attempt}%' AND {until} > {now}")
    }

    /// Reads one row: the time now, and until when and since when it is locked, in microseconds, who locked it, the name.
    pub(crate) fn read(&self, name: &Name) -> String {
        let Self { columns: [key, ..], .. } = self;
        format!("{} WHERE {key} = {}", self.rows(), self.text(name.as_str()))
    }

    /// Reads the rows whose names begin so.
    pub(crate) fn list(&self, prefix: &str, limit: usize) -> String {
        let Self { columns: [key, ..], .. } = self;
        let letters = prefix.chars().count();
        let bytes = self.bytes_of(key);
        let (rows, prefix) = (self.rows(), self.text(prefix));
        format!("{rows} WHERE LEFT({key}, {letters}) = {prefix} ORDER BY {bytes} LIMIT {limit}")
    }

    fn rows(&self) -> String {
        let Self { table, columns: [key, until, at, by], .. } = self;
        let [now, until, at] = [self.now(), until, at].map(|time| self.us(time));
        let (by, name) = (self.bytes_of(by), self.bytes_of(key));
        format!("SELECT {now}, {until}, {at}, {by}, {name} FROM {table}")
    }
}

/// Returns what an attempt writes into `locked_by`, in a column of this width: its id alone makes it unique, the rest is for
/// people, and is there as far as it fits.
pub(crate) fn locked_by(attempt: AttemptId, pid: u32, host: &str, widest: Option<usize>) -> String {
    let longest = widest.map_or(LONGEST, |widest| widest.min(LONGEST));
    format!("{BEGINS}{attempt} {pid}@{host}").chars().take(longest).collect()
}

fn is_word(text: &str) -> bool {
    (1..=63).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
