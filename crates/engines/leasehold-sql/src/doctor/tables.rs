//! Checks whether the tables exist, belong to this program, and may be written.

use leasehold_core::Error;
use leasehold_core::doctor::Diagnosis;

use super::probe::Probe;
use crate::address::Address;
use crate::error::What;

pub(super) async fn look(probe: &mut Probe, address: &Address) {
    let tables = &address.tables;
    let asked = probe.run(&tables.dialect.plain(&[tables.ask_version()]).text).await;
    let version = match asked {
        Ok(replies) => replies.into_iter().find_map(|reply| reply.rows.into_iter().next()),
        Err(fault) if fault.what == What::NoTable => None,
        Err(fault) if probe.is_silent() => {
            return probe.diagnosis.unseen("the tables", fault.error.message());
        }
        Err(fault) => return probe.diagnosis.refused(&fault.error),
    };
    let Some(version) = version else { return absent(probe, address) };
    let version = version.first().and_then(|version| version.number().ok());
    if let Some(Err(error)) = version.map(|version| tables.check(version)) {
        probe.diagnosis.problem(
            "other-tables",
            error.message(),
            "clients refuse tables of another version",
            "upgrade the older side, or use another prefix=NAME",
        );
        return;
    }
    let mut missing = Vec::new();
    let mut all = vec![&tables.locks, &tables.waiters, &tables.ended];
    let of_observers = tables.dialect.notifies().then(|| Later {
        id: "no-observers",
        tables: vec![&tables.observers],
        lack: "the tables are of an older program and have no table of observers",
        refused: "locks work, observers poll",
    });
    for Later { id, tables, lack, refused } in [
        Later {
            id: "no-readers",
            tables: vec![&tables.readers, &tables.read_waiters],
            lack: "the tables are of an older program and have no tables of readers",
            refused: "locks work, read-write locks are refused",
        },
        Later {
            id: "no-records",
            tables: vec![&tables.records, &tables.permits],
            lack: "the tables are of an older program and have no tables of semaphores and latches",
            refused: "locks work, semaphores and latches are refused",
        },
    ]
    .into_iter()
    .chain(of_observers)
    {
        let named: Vec<&str> = tables.iter().map(|table| table.as_str()).collect();
        let known = probe.run(&format!("SELECT 1 FROM {} WHERE 1 = 0", named.join(", "))).await;
        match known {
            Err(fault) if fault.what == What::NoTable => {
                let next =
                    "create the tables, as a user with the right: leasehold init --store URL";
                probe.diagnosis.note(id, lack, refused, next);
            }
            _ => all.extend(tables),
        }
    }
    for table in all {
        // No statement matches a row.
        for (right, statement) in [
            ("SELECT", format!("SELECT 1 FROM {table} WHERE 1 = 0")),
            ("INSERT", format!("INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0")),
            ("UPDATE", update(tables, table)),
            ("DELETE", format!("DELETE FROM {table} WHERE 1 = 0")),
        ] {
            if let Err(fault) = probe.run(&statement).await {
                if probe.is_silent() {
                    return say(&mut probe.diagnosis, &missing, Some(&fault.error));
                }
                missing.push(format!("{right} on {table} ({})", fault.error.message()));
            }
        }
    }
    say(&mut probe.diagnosis, &missing, None);
}

/// Tables that an older program does not create.
struct Later<'a> {
    id: &'static str,
    tables: Vec<&'a String>,
    lack: &'static str,
    refused: &'static str,
}

/// Reports the missing rights. `silence` is the error if the database did not answer for the other
/// rights.
fn say(diagnosis: &mut Diagnosis, missing: &[String], silence: Option<&Error>) {
    if let Some(error) = silence {
        let which = if missing.is_empty() { "the rights" } else { "the other rights" };
        diagnosis.unseen(which, error.message());
    }
    if !missing.is_empty() {
        diagnosis.problem(
            "rights",
            format!("rights are missing: {}", missing.join(", ")),
            "acquires fail, or locks can be acquired and not released",
            "grant SELECT, INSERT, UPDATE and DELETE on the tables to this user, on the primary",
        );
    }
}

fn update(tables: &crate::tables::Tables, table: &str) -> String {
    let column = if *table == tables.ended { "attempt" } else { "name" };
    format!("UPDATE {table} SET {column} = {column} WHERE 1 = 0")
}

fn absent(probe: &mut Probe, address: &Address) {
    let what = "the tables do not exist yet";
    match address.create {
        true => probe.diagnosis.note(
            "no-tables",
            what,
            "the first client creates them, if its user may",
            "create them now, as a user with the right: leasehold init --store URL",
        ),
        false => probe.diagnosis.problem(
            "no-tables",
            what,
            "with create=no no client creates them",
            "create them, as a user with the right: leasehold init --store URL",
        ),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::ErrorKind;

    use super::*;

    #[test]
    fn missing_rights_are_reported_though_the_database_falls_silent() {
        let missing = vec!["UPDATE on locks (permission denied)".to_owned()];
        let silence = Error::new(ErrorKind::Unavailable, "no answer");
        let mut diagnosis = Diagnosis::at("here");
        say(&mut diagnosis, &missing, Some(&silence));
        let finding = &diagnosis.findings[0];
        assert_eq!((finding.id, diagnosis.findings.len()), ("rights", 1), "{diagnosis:?}");
        assert!(finding.what.contains("UPDATE on locks"), "{diagnosis:?}");
        assert!(format!("{:?}", diagnosis.unseen).contains("the other rights"), "{diagnosis:?}");
    }
}
