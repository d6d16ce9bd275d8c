//! Acquires and releases with functions in the database. PostgreSQL plans a text statement each
//! time, which costs several times its execution. It plans the statements of a function once for
//! each connection, also behind a pooler.
//!
//! They do the same as [`take`](crate::take_statement::take) and the statement of a release, which replace
//! missing functions: in tables of an older program, or if a user may not create functions.

use leasehold_core::proto::handoff::TOKEN_LEAD;

use crate::tables::Tables;

/// The parameters of taking a lock.
#[derive(Clone, Copy)]
pub(crate) struct Take<'a> {
    pub(crate) name: &'a str,
    pub(crate) stamp: i64,
    pub(crate) attempt: &'a str,
    pub(crate) person: &'a str,
    pub(crate) ttl_us: u64,
    pub(crate) more: u64,
    pub(crate) most: u64,
}

/// The parameters of freeing a lock.
#[derive(Clone, Copy)]
pub(crate) struct Free<'a> {
    pub(crate) name: &'a str,
    pub(crate) stamp: i64,
    pub(crate) attempt: &'a str,
    pub(crate) base: u64,
    pub(crate) last: Option<u64>,
}

impl Tables {
    /// Returns the statements that create the functions.
    pub(crate) fn routines(&self) -> Vec<String> {
        let (Some(take), Some(free)) = (self.routine("take"), self.routine("free")) else {
            return Vec::new();
        };
        let (locks, observers, clock) = (&self.locks, &self.observers, self.dialect.now());
        let notify = format!(
            "PERFORM pg_notify(channel, 'C' || encode(name, 'hex')) FROM {observers}\n    \
             WHERE name = a_name AND until_us > clock_us;\n  "
        );
        let made = |name: &str, arguments: &str, variables: &str, body: &str| {
            format!(
                "CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS BIGINT LANGUAGE plpgsql AS \
                 $$\nDECLARE\n  clock_us BIGINT := {clock};\n{variables}BEGIN\n{body}END\n$$"
            )
        };
        vec![
            made(
                &take,
                "a_name BYTEA, a_stamp BIGINT, an_attempt BYTEA, a_person BYTEA, ttl_us BIGINT, \
                 more BIGINT, most BIGINT",
                "  token BIGINT;\n",
                &format!(
                    "  UPDATE {locks} SET stamp = a_stamp, \
                     lost = CASE WHEN state = 1 THEN base ELSE lost END,\n    \
                     base = GREATEST(top + 1, clock_us), top = GREATEST(top + 1, clock_us) + more, \
                     state = 1,\n    attempt = an_attempt, person = a_person, \
                     until_us = clock_us + ttl_us, since_us = clock_us, confirmed = 1\n    \
                     WHERE name = a_name AND (state = 0 OR until_us <= clock_us) AND line = 0\n    \
                     AND ended_us <= clock_us AND attempt <> an_attempt AND top < most \
                     AND clock_us < most\n    AND (more = 0 OR top < clock_us + {TOKEN_LEAD} - 1 - more) \
                     RETURNING base INTO token;\n  \
                     IF token IS NULL AND clock_us < most THEN\n    \
                     INSERT INTO {locks} (name, stamp, state, attempt, person, base, top, lost, \
                     until_us,\n      since_us, confirmed, line, ended_us, ticket)\n      \
                     VALUES (a_name, a_stamp, 1, an_attempt, a_person, clock_us, clock_us + more, clock_us - 1, \
                     clock_us + ttl_us,\n      clock_us, 1, 0, 0, 0)\n      \
                     ON CONFLICT DO NOTHING RETURNING base INTO token;\n  \
                     END IF;\n  IF token IS NOT NULL THEN\n    {notify}END IF;\n  RETURN token;\n"
                ),
            ),
            made(
                &free,
                "a_name BYTEA, a_stamp BIGINT, an_attempt BYTEA, a_base BIGINT, a_last BIGINT",
                "",
                &format!(
                    "  UPDATE {locks} SET stamp = a_stamp, state = 0, top = COALESCE(a_last, top), \
                     until_us = clock_us\n    WHERE name = a_name AND attempt = an_attempt \
                     AND base = a_base AND state = 1\n    AND until_us > clock_us AND line = 0;\n  \
                     IF NOT FOUND THEN\n    RETURN 0;\n  END IF;\n  {notify}RETURN 1;\n"
                ),
            ),
        ]
    }

    /// Calls the function that takes a lock; it returns the token, or nothing.
    pub(crate) fn call_take(&self, take: &Take<'_>) -> Option<String> {
        let Take { name, stamp, attempt, person, ttl_us, more, most } = take;
        let call = self.routine("take")?;
        Some(format!(
            "SELECT {call}({name}, {stamp}, {attempt}, {person}, {ttl_us}, {more}, {most})"
        ))
    }

    /// Calls the function that frees a lock; it returns 1, or 0 if a step is needed.
    pub(crate) fn call_free(&self, free: &Free<'_>) -> Option<String> {
        let Free { name, stamp, attempt, base, last } = free;
        let call = self.routine("free")?;
        let last = last.map_or_else(|| "NULL".to_owned(), |last| last.to_string());
        Some(format!("SELECT {call}({name}, {stamp}, {attempt}, {base}, {last})"))
    }
}
