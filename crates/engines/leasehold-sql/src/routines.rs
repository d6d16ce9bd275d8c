//! Acquires and releases with functions in the database. PostgreSQL plans a text statement each
//! time, which costs several times its execution. It plans the statements of a function once for
//! each connection, also behind a pooler.
//!
//! They do the same as [`take`](crate::take_statement::take) and the statement of a release, which replace
//! missing functions: in tables of an older program, or if a user may not create functions. Beyond that they do
//! the usual steps of the record in one packet: a client queues, and a release hands the lock to the
//! first waiter. They do so only between writers of which all are alive; other steps are left to the record.

use leasehold_core::Token;
use leasehold_core::proto::handoff::{OFFER, TOKEN_LEAD};

use crate::record::{PATIENCE, nobody, us};
use crate::tables::Tables;

/// The parameters of taking a lock.
pub(crate) struct Take {
    pub(crate) name: String,
    pub(crate) stamp: i64,
    pub(crate) attempt: String,
    pub(crate) person: String,
    pub(crate) ttl_us: u64,
    pub(crate) more: u64,
    pub(crate) most: u64,
    pub(crate) client: i64,
    /// How many tokens it waits for; 0 if it does not wait.
    pub(crate) waits_for: u32,
}

/// The parameters of freeing a lock.
pub(crate) struct Free {
    pub(crate) name: String,
    pub(crate) stamp: i64,
    pub(crate) attempt: String,
    pub(crate) base: u64,
    pub(crate) last: Option<u64>,
}

impl Free {
    /// Returns the statement that frees a lock without waiters.
    pub(crate) fn statement(&self, tables: &Tables) -> String {
        let Self { name, stamp, attempt, base, last } = self;
        let top = last.map_or_else(|| "top".to_owned(), |last| last.to_string());
        let (locks, clock) = (&tables.locks, tables.dialect.now());
        format!(
            "UPDATE {locks} SET stamp = {stamp}, state = 0, top = {top}, until_us = {clock} \
             WHERE name = {name} AND attempt = {attempt} AND base = {base} AND state = 1 \
             AND until_us > {clock} AND line = 0"
        )
    }
}

/// What the function that frees a lock has done.
pub(crate) const FREED: i64 = 1;
/// It has handed the lock to a waiter of another client.
pub(crate) const HANDED_ON: i64 = 2;
/// Waiters of the same client are concerned too.
pub(crate) const HANDED_ON_HERE: i64 = 3;

/// The time now, not that of the packet: while the function has the row, the times of all clients
/// are in the order of their steps.
const CLOCK_US: &str = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT";

impl Tables {
    /// Returns the statements that create the functions.
    pub(crate) fn routines(&self) -> Vec<String> {
        let (Some(take), Some(free)) = (self.routine("take"), self.routine("free")) else {
            return Vec::new();
        };
        let Self { locks, waiters, read_waiters, observers, dialect, .. } = self;
        let (clock, nobody) = (dialect.now(), dialect.bytes(&nobody().to_bytes()));
        let (patience, offer, lead, max) =
            (us(PATIENCE), us(OFFER), u64::from(TOKEN_LEAD), Token::MAX.get());
        let channels = self.channels();
        let client = |attempt: &str| format!("substring({attempt} FROM 1 FOR 8)");
        let channel = |attempt: &str| format!("'{channels}' || encode({}, 'hex')", client(attempt));
        let notify = format!(
            "PERFORM pg_notify(channel, 'C' || encode(name, 'hex')) FROM {observers}\n    \
             WHERE name = a_name AND until_us > clock_us;\n  "
        );
        let made = |name: &str, arguments: &str, returns: &str, variables: &str, body: &str| {
            format!(
                "CREATE OR REPLACE FUNCTION {name}({arguments}){returns} LANGUAGE plpgsql AS \
                 $$\nDECLARE\n  clock_us BIGINT := {clock};\n{variables}BEGIN\n{body}END\n$$"
            )
        };
        let (owner, next, first) = (client("l.attempt"), client("n.attempt"), client("w.attempt"));
        let (to_owner, to_next, to_first) =
            (channel("l.attempt"), channel("n.attempt"), channel("w.attempt"));
        let take_body = format!(
            "  LOOP\n    \
             UPDATE {locks} SET stamp = a_stamp, \
             lost = CASE WHEN state = 1 THEN base ELSE lost END,\n      \
             base = GREATEST(top + 1, clock_us), top = GREATEST(top + 1, clock_us) + more, \
             state = 1,\n      attempt = an_attempt, person = a_person, \
             until_us = clock_us + ttl_us, since_us = clock_us, confirmed = 1\n      \
             WHERE name = a_name AND (state = 0 OR until_us <= clock_us) AND line = 0\n      \
             AND ended_us <= clock_us AND attempt <> an_attempt AND top < most \
             AND clock_us < most\n      AND (more = 0 OR top < clock_us + {lead} - 1 - more) \
             RETURNING base INTO token;\n    \
             EXIT WHEN token IS NOT NULL OR again;\n    \
             IF waits_for > 0 THEN\n      \
             SELECT * INTO l FROM {locks} WHERE name = a_name FOR UPDATE;\n      \
             again := FOUND;\n    END IF;\n    \
             IF NOT again THEN\n      EXIT WHEN clock_us >= most;\n      \
             INSERT INTO {locks} (name, stamp, state, attempt, person, base, top, lost, \
             until_us,\n        since_us, confirmed, line, ended_us, ticket)\n        \
             VALUES (a_name, a_stamp, 1, an_attempt, a_person, clock_us, clock_us + more, clock_us - 1, \
             clock_us + ttl_us,\n        clock_us, 1, 0, 0, 0)\n        \
             ON CONFLICT DO NOTHING RETURNING base INTO token;\n      EXIT;\n    END IF;\n    \
             clock_us := {CLOCK_US};\n    \
             CONTINUE WHEN l.state = 0 OR l.until_us <= clock_us;\n    \
             EXIT WHEN l.state <> 1 OR l.attempt IN (an_attempt, {nobody}) OR l.ended_us > clock_us\n      \
             OR EXISTS (SELECT 1 FROM {read_waiters} WHERE name = a_name);\n    \
             SELECT COUNT(*), COUNT(*) FILTER (WHERE seen_us <= clock_us - {patience} OR attempt = an_attempt)\n      \
             INTO ahead, other FROM {waiters} WHERE name = a_name;\n    \
             EXIT WHEN other > 0;\n    \
             INSERT INTO {waiters} (attempt, name, ticket, client, holder, ttl_us, tokens, person, asked_us, \
             seen_us)\n      VALUES (an_attempt, a_name, l.ticket + 1, a_client,\n      \
             ('x' || encode({owner}, 'hex'))::BIT(64)::BIGINT, ttl_us, waits_for, a_person, clock_us, \
             clock_us);\n    \
             UPDATE {locks} SET stamp = a_stamp, line = 1, ticket = l.ticket + 1 WHERE name = a_name;\n    \
             IF ahead = 0 THEN\n      PERFORM pg_notify({to_owner}, '');\n    END IF;\n    {notify}  \
             place := ahead;\n    left_us := l.until_us - clock_us;\n    now_us := clock_us;\n    \
             RETURN;\n  END LOOP;\n  \
             IF token IS NOT NULL THEN\n    {notify}END IF;\n"
        );
        let free_body = format!(
            "  UPDATE {locks} SET stamp = a_stamp, state = 0, top = COALESCE(a_last, top), \
             until_us = clock_us\n    WHERE name = a_name AND attempt = an_attempt \
             AND base = a_base AND state = 1\n    AND until_us > clock_us AND line = 0;\n  \
             IF FOUND THEN\n    {notify}  RETURN {FREED};\n  END IF;\n  \
             SELECT * INTO l FROM {locks} WHERE name = a_name AND attempt = an_attempt AND base = a_base\n    \
             AND state = 1 AND line = 1 FOR UPDATE;\n  \
             IF NOT FOUND THEN\n    RETURN 0;\n  END IF;\n  \
             clock_us := {CLOCK_US};\n  \
             SELECT * INTO w FROM {waiters} WHERE name = a_name ORDER BY ticket LIMIT 1;\n  \
             IF NOT FOUND OR l.until_us <= clock_us OR w.seen_us <= clock_us - {patience}\n    \
             OR EXISTS (SELECT 1 FROM {read_waiters} WHERE name = a_name) THEN\n    RETURN 0;\n  END IF;\n  \
             SELECT * INTO n FROM {waiters} WHERE name = a_name AND attempt <> w.attempt ORDER BY ticket LIMIT 1;\n  \
             more := FOUND;\n  \
             new_base := GREATEST(COALESCE(a_last, l.top) + 1, clock_us);\n  \
             new_top := new_base - 1 + LEAST(w.tokens, GREATEST(1, clock_us + {lead} - new_base));\n  \
             IF new_top > {max} OR (more AND n.seen_us <= clock_us - {patience}) THEN\n    \
             RETURN 0;\n  END IF;\n  \
             UPDATE {locks} SET stamp = a_stamp, base = new_base, top = new_top, attempt = w.attempt, \
             person = w.person,\n    until_us = clock_us + LEAST(w.ttl_us, {offer}), since_us = clock_us, \
             confirmed = 0, line = more::INT\n    WHERE name = a_name;\n  \
             DELETE FROM {waiters} WHERE attempt = w.attempt;\n  \
             PERFORM pg_notify({to_first}, concat_ws(' ', 'G' || encode(w.attempt, 'hex'), clock_us, new_base, new_top,\n    \
             LEAST(w.ttl_us, {offer}), more::INT));\n  \
             IF more THEN\n    PERFORM pg_notify({to_next}, '');\n  END IF;\n  {notify}\
             IF {me} IN ({first}, {next}) THEN\n    RETURN {HANDED_ON_HERE};\n  END IF;\n  \
             RETURN {HANDED_ON};\n",
            me = client("an_attempt")
        );
        vec![
            made(
                &take,
                "a_name BYTEA, a_stamp BIGINT, an_attempt BYTEA, a_person BYTEA, ttl_us BIGINT, \
                 more BIGINT, most BIGINT, a_client BIGINT, waits_for BIGINT, OUT token BIGINT, \
                 OUT now_us BIGINT, OUT left_us BIGINT, OUT place BIGINT",
                "",
                "  l RECORD;\n  again BOOLEAN := FALSE;\n  ahead BIGINT;\n  other BIGINT;\n",
                &take_body,
            ),
            made(
                &free,
                "a_name BYTEA, a_stamp BIGINT, an_attempt BYTEA, a_base BIGINT, a_last BIGINT",
                " RETURNS BIGINT",
                "  l RECORD;\n  w RECORD;\n  n RECORD;\n  more BOOLEAN;\n  new_base BIGINT;\n  \
                 new_top BIGINT;\n",
                &free_body,
            ),
        ]
    }

    /// Returns what the names of the channels of all clients begin with.
    pub(crate) fn channels(&self) -> String {
        format!("{}_", self.locks.replace('.', "_"))
    }

    /// Calls the function that takes a lock, or queues for it. It returns the token; or the time, how long the
    /// lease of the holder lasts, and how many wait before; or nothing if a step is needed.
    pub(crate) fn call_take(&self, take: &Take) -> Option<String> {
        let Take { name, stamp, attempt, person, ttl_us, more, most, client, waits_for } = take;
        let call = self.routine("take")?;
        Some(format!(
            "SELECT * FROM {call}({name}, {stamp}, {attempt}, {person}, {ttl_us}, {more}, {most}, \
             {client}, {waits_for})"
        ))
    }

    /// Calls the function that frees a lock, or hands it on. It returns what it has done; 0 if a step is needed.
    pub(crate) fn call_free(&self, free: &Free) -> Option<String> {
        let Free { name, stamp, attempt, base, last } = free;
        let call = self.routine("free")?;
        let last = last.map_or_else(|| "NULL".to_owned(), |last| last.to_string());
        Some(format!("SELECT {call}({name}, {stamp}, {attempt}, {base}, {last})"))
    }
}
