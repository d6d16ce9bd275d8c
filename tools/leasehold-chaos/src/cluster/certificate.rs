//! Servers whose connections are encrypted, and whose certificates change.

use std::io;

use leasehold_test_servers::{
    Certificates, EtcdServer, EtcdSettings, MariaDb, Postgres, RedisServer,
};

use super::{Node, password, settings};
use crate::Result;
use crate::setup::SetUp;

/// The files of a server, and those of an authority that clients do not know.
#[derive(Debug)]
pub(super) struct Files {
    own: Certificates,
    unknown: Certificates,
}

impl Files {
    fn make() -> io::Result<Self> {
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

/// The server of a set-up, with its certificates.
pub(super) fn node(setup: SetUp) -> Result<Node> {
    let files = Files::make()?;
    let own = &files.own;
    let node = match setup {
        SetUp::PostgresTls => Node::opaque(Postgres::start_tls(&[], own)?, None)?,
        SetUp::MariadbTls => Node::opaque(MariaDb::start_tls(&[], own)?, None)?,
        SetUp::EtcdTls => Node::opaque(EtcdServer::start(EtcdSettings::new().tls(own))?, None)?,
        _ => Node::opaque(RedisServer::start(settings(Vec::new()).tls(own))?, None)?,
    };
    Ok(node.with_files(files))
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
