//! Asks the tables about a lock.

use leasehold_core::proto::read_write::STEP;
use leasehold_core::{AttemptId, Name};

use super::{PATIENCE, nobody, us};
use crate::dialect::{Dialect, Packet};
use crate::hold::Hold;
use crate::tables::Tables;

/// How many of the first waiters that write a step may concern.
const HEADS: usize = 3;
/// How many of the readers whose leases end first a step may remove.
const EARLIEST: usize = 2;

/// The columns of a row, after the database's time.
pub(crate) const COLUMNS: &str = "l.stamp, l.state, l.attempt, l.person, l.base, l.top, l.lost, \
                                  l.until_us, l.since_us, l.confirmed, l.line, l.ended_us, l.ticket";

/// What a step must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) name: &'a Name,
    /// The attempts that take part in the step.
    pub(crate) attempts: &'a [AttemptId],
    /// The tables can store readers.
    pub(crate) shared: bool,
    /// Also ask for readers, those that hold and those that wait. A step on a lock that no client
    /// reads only counts them.
    pub(crate) readers: bool,
    pub(crate) hold: Hold,
}

/// Reads the row of a lock; there is always one answer.
pub(crate) fn ask_row(tables: &Tables, name: &Name) -> String {
    let (dialect, locks) = (tables.dialect, &tables.locks);
    let (now, name) = (dialect.now(), dialect.bytes(name.as_str().as_bytes()));
    format!(
        "SELECT {now}, {COLUMNS} FROM (SELECT 1 AS one) AS here \
         LEFT JOIN {locks} l ON l.name = {name}"
    )
}

/// Reads everything that a step of these attempts needs. It reads the row first and its stamp again
/// at the end: if the stamp is the same, all parts belong together.
pub(crate) fn ask(tables: &Tables, question: &Question<'_>) -> Packet {
    let Question { name, attempts, shared, readers, hold } = *question;
    let Tables { dialect, locks, waiters, read_waiters, ended, .. } = tables;
    let own = list(*dialect, attempts);
    let (clock, patience) = (dialect.now(), us(PATIENCE));
    let alive = format!("seen_us > {clock} - {patience}");
    let bytes = dialect.bytes(name.as_str().as_bytes());
    let columns = "w.attempt, w.ttl_us, w.tokens, w.person, w.asked_us, w.ticket";
    let first = |table: &str, most: usize| {
        format!(
            "SELECT {columns} FROM {table} w WHERE w.name = {bytes} AND w.{alive} \
             ORDER BY w.ticket LIMIT {most}"
        )
    };
    let ours = |table: &str| {
        format!(
            "SELECT {columns}, (SELECT COUNT(*) FROM {table} b WHERE b.name = {bytes} \
             AND b.ticket < w.ticket AND b.{alive}) \
             FROM {table} w WHERE w.attempt IN ({own}) AND w.{alive}"
        )
    };
    let (heads, ours) = match readers {
        true => (
            format!(
                "SELECT * FROM ({}) AS writing UNION ALL SELECT * FROM ({}) AS reading",
                first(waiters, HEADS),
                first(read_waiters, STEP)
            ),
            format!("{} UNION ALL {}", ours(waiters), ours(read_waiters)),
        ),
        false => (first(waiters, HEADS), ours(waiters)),
    };
    let reading = format!("SELECT COUNT(*) FROM {read_waiters} WHERE name = {bytes}");
    let reading = match (readers, shared) {
        (true, _) => format!(", ({reading}), ({reading} AND {alive})"),
        (false, true) => format!(", ({reading})"),
        (false, false) => String::new(),
    };
    let mut statements = vec![
        ask_row(tables, name),
        heads,
        ours,
        format!(
            "SELECT COUNT(*), COUNT(CASE WHEN {alive} THEN 1 END){reading} FROM {waiters} \
             WHERE name = {bytes}"
        ),
        format!("SELECT attempt, until_us FROM {ended} WHERE attempt IN ({own})"),
    ];
    if readers {
        statements.push(members(tables, &bytes, attempts));
    }
    statements.push(tables.ask_stamp(&bytes));
    match hold {
        Hold::Nothing => dialect.reading(&statements),
        Hold::Everything => dialect.begin(&statements),
        Hold::Statements => {
            let close = format!("UPDATE {locks} SET line = 1 WHERE name = {bytes} AND line = 0");
            statements.insert(0, close);
            let mut packet = dialect.plain(&statements);
            packet.skip += 1;
            packet
        }
    }
}

/// Reads the members of a read phase that a step may concern, and the row about the last read
/// phase. A row may come twice.
fn members(tables: &Tables, name: &str, attempts: &[AttemptId]) -> String {
    let Tables { dialect, locks, readers, .. } = tables;
    let own: Vec<AttemptId> = [nobody()].iter().chain(attempts).copied().collect();
    let (own, nobody) = (list(*dialect, &own), dialect.bytes(&nobody().to_bytes()));
    let asked = format!(
        "SELECT r.attempt, r.base, r.lost, r.until_us, r.confirmed, r.person FROM {readers} r \
         WHERE r.name = {name}"
    );
    let present = format!(
        "r.attempt <> {nobody} AND r.base = (SELECT l.base FROM {locks} l WHERE l.name = {name})"
    );
    format!(
        "{asked} AND r.attempt IN ({own}) \
         UNION ALL SELECT * FROM ({asked} AND {present} ORDER BY r.until_us DESC LIMIT {STEP}) \
         AS latest UNION ALL SELECT * FROM ({asked} AND {present} ORDER BY r.until_us \
         LIMIT {EARLIEST}) AS earliest"
    )
}

/// Writes attempts as a list of values; no attempt is a list of nothing.
pub(crate) fn list(dialect: Dialect, attempts: &[AttemptId]) -> String {
    if attempts.is_empty() {
        return "NULL".to_owned();
    }
    let each: Vec<String> =
        attempts.iter().map(|attempt| dialect.bytes(&attempt.to_bytes())).collect();
    each.join(", ")
}
