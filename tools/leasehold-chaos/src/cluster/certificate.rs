//! Servers whose connections are encrypted, and whose certificates change.

use std::io;

use leasehold_test_servers::Certificates;

use super::password;
use crate::setup::SetUp;

/// The files of a server, and those of an authority that clients do not know.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) own: Certificates,
    unknown: Certificates,
}

impl Files {
    pub(super) fn make() -> io::Result<Self> {
        Ok(Self { own: Certificates::make()?, unknown: Certificates::make()? })
    }

    /// Has another certificate of the same authority.
    pub(super) fn renew(&self) -> io::Result<()> {
        self.own.renew()
    }

    /// Has a certificate of the unknown authority.
    pub(super) fn forge(&self) -> io::Result<()> {
        self.own.take_server_of(&self.unknown)
    }
}

/// The URL of a set-up whose proxy listens there.
pub(super) fn url(setup: SetUp, place: &str, files: &Files) -> String {
    let (user, own) = (password::LOGIN, &files.own);
    let authority = own.authority().display().to_string();
    let (client, key) = (own.client(), own.client_key());
    let all = format!("tls-ca={authority}&tls-cert={}&tls-key={}", client.display(), key.display());
    match setup {
        SetUp::PostgresTls => {
            format!(
                "postgres://{user}{place}/leasehold?sslmode=verify-full&sslrootcert={authority}"
            )
        }
        SetUp::MariadbTls => {
            format!("mysql://{user}{place}/leasehold?tls=verify&tls-ca={authority}")
        }
        SetUp::EtcdTls => format!("etcds://{}?{all}", place.replace("127.0.0.1", "localhost")),
        _ => format!("rediss://{user}{place}?{all}"),
    }
}
