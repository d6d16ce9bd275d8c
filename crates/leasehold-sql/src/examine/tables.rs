//! Whether the tables are there, are ours, and may be written.

use super::patient::Patient;
use crate::address::Address;
use crate::error::What;

pub(super) async fn look(patient: &mut Patient, address: &Address) {
    let tables = &address.tables;
    let asked = patient.run(&tables.dialect.plain(&[tables.ask_version()]).text).await;
    let version = match asked {
        Ok(replies) => replies.into_iter().find_map(|reply| reply.rows.into_iter().next()),
        Err(fault) if fault.what == What::NoTable => None,
        Err(fault) => return patient.examined.refused(&fault.error),
    };
    let Some(version) = version else { return absent(patient, address) };
    let version = version.first().and_then(|version| version.number().ok());
    if let Some(Err(error)) = version.map(|version| tables.check(version)) {
        patient.examined.problem(
            "other-tables",
            error.message(),
            "clients leave tables of another version alone",
            "upgrade the older side, or use another prefix=NAME",
        );
        return;
    }
    let mut missing = Vec::new();
    for table in [&tables.locks, &tables.waiters, &tables.ended] {
        // None of them matches a row.
        for (right, statement) in [
            ("SELECT", format!("SELECT 1 FROM {table} WHERE 1 = 0")),
            ("INSERT", format!("INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0")),
            ("UPDATE", update(tables, table)),
            ("DELETE", format!("DELETE FROM {table} WHERE 1 = 0")),
        ] {
            if let Err(fault) = patient.run(&statement).await {
                missing.push(format!("{right} on {table} ({})", fault.error.message()));
            }
        }
    }
    if !missing.is_empty() {
        patient.examined.problem(
            "rights",
            format!("it cannot be done: {}", missing.join(", ")),
            "locks are refused, or can be had and not given back",
            "grant SELECT, INSERT, UPDATE and DELETE on the tables to this user, on the primary",
        );
    }
}

fn update(tables: &crate::tables::Tables, table: &str) -> String {
    let column = if *table == tables.ended { "attempt" } else { "name" };
    format!("UPDATE {table} SET {column} = {column} WHERE 1 = 0")
}

fn absent(patient: &mut Patient, address: &Address) {
    let what = "the tables are not there yet";
    match address.create {
        true => patient.examined.note(
            "no-tables",
            what,
            "the first client makes them, if its user may",
            "make them now, as a user who may: leasehold init --store URL",
        ),
        false => patient.examined.problem(
            "no-tables",
            what,
            "with create=no nobody makes them",
            "make them, as a user who may: leasehold init --store URL",
        ),
    }
}
