//! Several hosts in one URL, and clients of the servers that they name.

use std::fmt;
use std::time::Duration;

use leasehold_core::{Result, StoreUrl};
use redis::{Client, ConnectionAddr};

use crate::address::{Common, Login, OPTIONS, host_and_port, invalid, split_db};
use crate::scheme::is_tls;

/// Creates clients of servers that other servers name: with which credentials and settings.
#[derive(Clone)]
pub(crate) struct Maker {
    common: Common,
    login: Login,
    tls: bool,
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Maker {
    /// Returns the client of one server.
    pub(crate) fn client(&self, host: &str, port: u16) -> Result<Client> {
        let host = host.to_owned();
        let addr = match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        Ok(self.common.address(addr, self.login.clone(), String::new())?.client)
    }

    pub(crate) fn tls(&self) -> bool {
        self.tls
    }

    /// Returns the same maker with other credentials.
    pub(crate) fn with_login(&self, user: Option<String>, password: Option<String>) -> Self {
        let mut maker = self.clone();
        (maker.common.user, maker.common.password_file) = (None, None);
        (maker.common.db, maker.login) = (None, Login { user, password, db: None });
        maker
    }

    pub(crate) fn without_tls(mut self) -> Self {
        (self.tls, self.common.certificates) = (false, None);
        self
    }
}

/// The parts of a URL that names several hosts of one store:
/// `//[user[:password]@]host[:port],...[/rest]`.
#[derive(Debug)]
pub(crate) struct Seeds {
    pub(crate) hosts: Vec<(String, u16)>,
    /// The text after the last host.
    pub(crate) rest: Option<String>,
    pub(crate) db: Option<String>,
    pub(crate) maker: Maker,
    pub(crate) prefix: String,
    pub(crate) retain: Duration,
    pub(crate) place: String,
}

impl Seeds {
    /// Takes the options that every URL may have; the caller took `options` before.
    pub(crate) fn parse(mut url: StoreUrl, port: u16, options: &[&str]) -> Result<Self> {
        let common = Common::take(&mut url)?;
        url.finish(&[OPTIONS, options].concat())?;
        let (places, rest) = split_db(url.place());
        let places = places.strip_prefix("//").ok_or_else(|| {
            invalid(format!("the hosts are missing; write {}://one,two,three", url.scheme()))
        })?;
        let (login, places) = match places.rsplit_once('@') {
            Some((login, places)) => (Login::parse(login)?, places),
            None => (Login::default(), places),
        };
        let hosts = places.split(',').map(|text| host_and_port(text, port));
        Ok(Self {
            hosts: hosts.collect::<Result<_>>()?,
            rest: rest.map(str::to_owned),
            db: common.db.clone(),
            prefix: common.prefix.clone(),
            retain: common.retain,
            place: url.to_string(),
            maker: Maker { common, login, tls: is_tls(url.scheme()) },
        })
    }
}
