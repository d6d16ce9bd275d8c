//! Checks for what can harm locks in a database.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod encryption;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod probe;
mod records;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tables;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

use crate::address::{Address, Target};
use crate::store::Store;
use probe::Probe;

/// Checks the database of a URL, as far as the user's permissions allow. Acquires no lock and
/// changes nothing: it tests the permission to write with statements that match no row.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that cannot be parsed; [`ErrorKind::Unavailable`] if the
/// database does not answer.
pub async fn diagnose(url: StoreUrl) -> Result<Diagnosis> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime; call diagnose inside a tokio runtime",
        ));
    }
    #[cfg(feature = "sqlite")]
    #[allow(irrefutable_let_patterns, reason = "there may be one engine only")]
    if let Target::Sqlite(options) = &address.target {
        return sqlite::diagnose(&address, options).await;
    }
    let mut probe = match Probe::reach(&address.target, &address).await {
        Ok(probe) => probe,
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        Err(error) => {
            let mut diagnosis = Diagnosis::at(&address.place);
            diagnosis.refused(&error);
            return Ok(diagnosis);
        }
    };
    look(&mut probe, &address).await;
    Ok(probe.diagnosis)
}

async fn look(probe: &mut Probe, address: &Address) {
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    encryption::look(&mut probe.diagnosis, &address.target, cfg!(feature = "tls"));
    probe.measure().await;
    match &address.target {
        #[cfg(feature = "postgres")]
        Target::Postgres(options) => postgres::look(probe, address, options).await,
        #[cfg(feature = "mysql")]
        Target::MySql(_) => mysql::look(probe, address).await,
        #[cfg(feature = "sqlite")]
        Target::Sqlite(_) => {}
    }
    let Some(table) = &address.wire else {
        tables::look(probe, address).await;
        return records::look(probe, address).await;
    };
    let store = Store::new(address, Clock::system());
    match crate::shedlock::check(&store, table).await {
        Ok(found) => found.warnings.into_iter().for_each(|warning| {
            probe.diagnosis.note(
                "shedlock",
                warning,
                "another program would hold the lock at the same time",
                "look at each program that uses the table",
            );
        }),
        Err(error) => probe.diagnosis.refused(&error),
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
#[path = "doctor_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests;
