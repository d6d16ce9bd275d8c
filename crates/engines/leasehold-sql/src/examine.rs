//! Checks for what can harm locks in a database.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod encryption;
#[cfg(feature = "mysql")]
mod mysql;
mod patient;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tables;

use leasehold_core::doctor::Examined;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

use crate::address::{Address, Target};
use patient::Patient;

/// Checks the database of a URL, as far as the user's permissions allow. Acquires no lock and
/// changes nothing: it tests the permission to write with statements that match no row.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that cannot be parsed; [`ErrorKind::Unavailable`] if the
/// database does not answer.
pub async fn examine(url: StoreUrl) -> Result<Examined> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime is running here: examine inside a runtime",
        ));
    }
    #[cfg(feature = "sqlite")]
    #[allow(irrefutable_let_patterns, reason = "there may be one engine only")]
    if let Target::Sqlite(options) = &address.target {
        return sqlite::examine(&address, options).await;
    }
    let mut patient = match Patient::reach(&address.target, &address).await {
        Ok(patient) => patient,
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        Err(error) => {
            let mut examined = Examined::at(&address.place);
            examined.refused(&error);
            return Ok(examined);
        }
    };
    look(&mut patient, &address).await;
    Ok(patient.examined)
}

async fn look(patient: &mut Patient, address: &Address) {
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    encryption::look(&mut patient.examined, &address.target, cfg!(feature = "tls"));
    patient.measure().await;
    match &address.target {
        #[cfg(feature = "postgres")]
        Target::Postgres(options) => postgres::look(patient, address, options).await,
        #[cfg(feature = "mysql")]
        Target::MySql(_) => mysql::look(patient, address).await,
        #[cfg(feature = "sqlite")]
        Target::Sqlite(_) => {}
    }
    tables::look(patient, address).await;
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
#[path = "examine_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests;
