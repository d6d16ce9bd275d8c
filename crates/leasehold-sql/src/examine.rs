//! What can hurt locks in a database.

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

/// Looks at the database that a URL names, as far as its user may. Nothing is locked, and nothing is
/// changed: rights to write are tried by statements that match no row.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood; [`ErrorKind::Unavailable`] when nobody
/// answers.
pub async fn examine(url: StoreUrl) -> Result<Examined> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(ErrorKind::Invalid, "no tokio runtime here: examine inside one"));
    }
    #[cfg(feature = "sqlite")]
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
    patient.measure().await;
    match &address.target {
        #[cfg(feature = "postgres")]
        Target::Postgres(options) => postgres::look(&mut patient, &address, options).await,
        #[cfg(feature = "mysql")]
        Target::MySql(_) => mysql::look(&mut patient, &address).await,
        #[cfg(feature = "sqlite")]
        Target::Sqlite(_) => {}
    }
    tables::look(&mut patient, &address).await;
    Ok(patient.examined)
}
