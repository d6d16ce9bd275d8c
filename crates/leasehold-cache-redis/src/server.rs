//! The current Redis server: the one of the URL, or the master that sentinels name.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_redis::SentinelMaster;
use redis::{Client, IntoConnectionInfo, RedisError, RedisResult};
use tokio::sync::{Notify, watch};

use crate::{Error, Result};

/// The first and the longest pause before the sentinels are asked again if they name no master.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The server of a URL, or the master that its sentinels name now. Clones refer to the same server.
#[derive(Clone)]
pub struct Server {
    /// The URL without the password.
    url: Arc<str>,
    found: watch::Receiver<Found>,
    /// Wakes the task that asks the sentinels.
    again: Arc<Notify>,
    /// Present if the URL names the server itself.
    named: Option<Arc<watch::Sender<Found>>>,
}

/// The current server, as far as it is known.
pub(crate) struct Found {
    /// Increases by one for each new server.
    pub(crate) number: u64,
    /// The client of the server, or the reason why there is none.
    pub(crate) client: std::result::Result<Client, Arc<str>>,
}

/// Checks that this code runs inside a tokio runtime, and prepares TLS.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) outside a runtime.
pub fn ready() -> Result<()> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::invalid("no tokio runtime; call this inside a tokio runtime"));
    }
    // If the engines of locks add a second provider to the build, neither is the default.
    #[cfg(feature = "tls")]
    rustls::crypto::ring::default_provider().install_default().ok();
    Ok(())
}

impl Server {
    /// Opens the server of a URL, without connecting to it. Sentinels are asked in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that is not allowed, or outside a tokio runtime.
    pub fn open(url: &str, clock: Clock) -> Result<Self> {
        ready()?;
        let shown: Arc<str> = redacted(url).into();
        let again = Arc::<Notify>::default();
        let scheme = scheme(url);
        supported(&scheme, cfg!(feature = "tls"))?;
        let client = match scheme.as_str() {
            "redis+sentinel" | "rediss+sentinel" => {
                let master = SentinelMaster::parse(url)
                    .map_err(|error| Error::invalid(error.message().to_owned()))?;
                let none = Err("the sentinels have not answered yet".into());
                let (sender, found) = watch::channel(Found { number: 0, client: none });
                tokio::spawn(follow(master, sender, Arc::clone(&again), clock));
                return Ok(Self { url: shown, found, again, named: None });
            }
            "redis+cluster" | "rediss+cluster" => {
                return Err(Error::invalid(
                    "Redis URL: Redis Cluster is not supported here; write redis://host:port/db, \
                     or redis+sentinel://one,two,three/NAME",
                ));
            }
            "redis" | "rediss" | "redis+unix" => leasehold_redis::data_client(url)
                .map_err(|error| Error::invalid(error.message().to_owned()))?,
            // The URL may hold a password, and the library's error may repeat it.
            _ => client(url).map_err(|_| {
                Error::invalid(
                    "Redis URL: write redis://host:port/db, rediss://host, redis+unix:/path or \
                     redis+sentinel://one,two,three/NAME",
                )
            })?,
        };
        let (sender, found) = watch::channel(Found { number: 1, client: Ok(client) });
        Ok(Self { url: shown, found, again, named: Some(Arc::new(sender)) })
    }

    /// Returns its URL without the password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the current server.
    pub(crate) fn now(&self) -> watch::Ref<'_, Found> {
        self.found.borrow()
    }

    /// Waits until a server is known.
    pub(crate) async fn wait(&mut self) -> (u64, Client) {
        loop {
            if let Found { number, client: Ok(client) } = &*self.found.borrow_and_update() {
                return (*number, client.clone());
            }
            self.moved_on().await;
        }
    }

    /// Waits until the server is another one than [`wait`](Self::wait) returned.
    pub(crate) async fn moved_on(&mut self) {
        if self.found.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Reports that the server may be the wrong one: the sentinels are asked again.
    pub(crate) fn doubt(&self) {
        self.again.notify_one();
    }

    /// Reports that another server, or another run of it, answers at this URL: connected tasks
    /// reconnect. Returns the new number; `None` if sentinels name the server.
    pub(crate) fn renew(&self) -> Option<u64> {
        let sender = self.named.as_ref()?;
        let mut number = 0;
        sender.send_modify(|found| {
            found.number += 1;
            number = found.number;
        });
        Some(number)
    }

    /// Returns the error if no server was known within a time limit.
    pub(crate) fn none(&self) -> RedisError {
        let now = self.now();
        let why = now.client.as_ref().err().map_or("the server is not known yet", |why| why);
        io::Error::new(io::ErrorKind::NotConnected, why).into()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Returns the scheme of a URL, in lower case.
fn scheme(url: &str) -> String {
    url.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// Refuses a scheme that needs a build with TLS. The client library refuses it too, but does not
/// name the feature.
fn supported(scheme: &str, has_tls: bool) -> Result<()> {
    if !has_tls && matches!(scheme, "rediss" | "rediss+sentinel") {
        return Err(Error::invalid(format!(
            "Redis URL: scheme {scheme:?} needs the feature \"tls\" of the Leasehold crate that \
             opens it, which this build does not have"
        )));
    }
    Ok(())
}

/// Returns the client of a URL. A user without a password sends an empty one: without AUTH the
/// server would use the default user.
fn client(url: &str) -> RedisResult<Client> {
    let mut info = url.into_connection_info()?;
    let login = info.redis_settings();
    if login.username().is_some() && login.password().is_none() {
        let login = login.clone().set_password("");
        info = info.set_redis_settings(login);
    }
    Client::open(info)
}

/// Returns a URL without its password and its options.
fn redacted(url: &str) -> String {
    let end = |place: &str| place.split(['?', '#']).next().unwrap_or_default().to_owned();
    // A socket has its user and password in the options. An @ before its absolute path is a mistaken login.
    if scheme(url).ends_with("unix") {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let (slashes, place) = rest.strip_prefix("//").map_or(("", rest), |place| ("//", place));
        return match place.contains('@') && !place.starts_with('/') {
            true => format!("{scheme}:{slashes}***"),
            false => end(url),
        };
    }
    // What follows the last @ has no password. A password may have any sign before it.
    let Some((scheme, rest)) = url.split_once("://") else {
        return end(url.rsplit('@').next().unwrap_or_default());
    };
    let Some((user, place)) = rest.rsplit_once('@') else { return end(url) };
    match user.split_once(':') {
        // The password has a raw ?, or what follows the @ is a part of an option.
        _ if user.contains('?') => format!("{scheme}://***"),
        None => format!("{scheme}://{user}@{}", end(place)),
        Some((user, _)) => format!("{scheme}://{user}:***@{}", end(place)),
    }
}

/// Asks the sentinels now, and whenever one of them names another master, for as long as the server
/// is used.
async fn follow(
    master: SentinelMaster,
    found: watch::Sender<Found>,
    again: Arc<Notify>,
    clock: Clock,
) {
    let (mut moved, mut pause) = (false, PAUSES.0);
    loop {
        let told = tokio::select! {
            () = found.closed() => return,
            told = master.client() => told,
        };
        let named = told.is_ok();
        match told {
            Ok(client) => {
                let address = client.get_connection_info().addr().clone();
                found.send_if_modified(|found| {
                    let is_known = |known: &Client| *known.get_connection_info().addr() == address;
                    let other = moved || !found.client.as_ref().is_ok_and(is_known);
                    if other {
                        tracing::debug!(%address, "the sentinels name a master");
                        *found = Found { number: found.number + 1, client: Ok(client) };
                    }
                    other
                });
                (moved, pause) = (false, PAUSES.0);
            }
            Err(error) => {
                tracing::debug!(%error, "the sentinels name no master");
                let why: Arc<str> = error.message().into();
                // No caller waits for another reason, and the previous server may still be there.
                found.send_if_modified(|found| {
                    if let Err(before) = &mut found.client {
                        *before = why;
                    }
                    false
                });
            }
        }
        let later = async {
            match named {
                true => std::future::pending().await,
                false => clock.sleep(pause).await,
            }
        };
        moved |= tokio::select! {
            () = found.closed() => return,
            () = master.moved() => true,
            () = again.notified() => false,
            () = later => {
                pause = (pause * 2).min(PAUSES.1);
                false
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{client, redacted, supported};

    #[test]
    fn user_without_a_password_is_never_taken_for_the_default_user() {
        type Open = fn(&str) -> redis::Client;
        let library: Open = |url| client(url).unwrap();
        let ours: Open = |url| leasehold_redis::data_client(url).unwrap();
        for (open, url, login) in [
            (library, "valkey://app@localhost", (Some("app"), Some(""))),
            (library, "valkey://app:s3cret@localhost", (Some("app"), Some("s3cret"))),
            (library, "valkey://localhost", (None, None)),
            (ours, "redis://app@localhost", (Some("app"), Some(""))),
            (ours, "redis://app:s3cret@localhost", (Some("app"), Some("s3cret"))),
            (ours, "redis://:s3cret@localhost", (None, Some("s3cret"))),
            (ours, "redis://localhost", (None, None)),
        ] {
            let client = open(url);
            let settings = client.get_connection_info().redis_settings();
            assert_eq!((settings.username(), settings.password()), login, "{url}");
        }
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
            ("redis://app:word@host:1/2", "redis://app:***@host:1/2"),
            ("redis://:wo@rd@host", "redis://:***@host"),
            ("unix:/run/redis.sock?pass=word", "unix:/run/redis.sock"),
            (
                "redis+sentinel://a:word@one,two/main?password=word",
                "redis+sentinel://a:***@one,two/main",
            ),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn a_password_with_the_signs_of_a_url_is_never_shown() {
        for (url, shown) in [
            ("redis://app:s3?cret@host:1/2", "redis://***"),
            ("redis://app:s3#cret@host:1/2", "redis://app:***@host:1/2"),
            ("redis://app:s3/cret@host:1/2", "redis://app:***@host:1/2"),
            ("redis://:s3:/?#cret@host", "redis://***"),
            ("rediss://s3?cret@host", "rediss://***"),
            ("redis://host/2?password=s3@cret", "redis://***"),
            ("unix:/run/redis.sock?pass=s3@cret", "unix:/run/redis.sock"),
            ("UNIX:/run/redis.sock?pass=s3@cret", "UNIX:/run/redis.sock"),
            ("unix:///run/redis.sock?user=app&pass=s3@cret", "unix:///run/redis.sock"),
            ("unix://app:s3cret@localhost/run/redis.sock", "unix://***"),
            ("unix://app:s3/cret@localhost/run/redis.sock", "unix://***"),
            ("unix:app:s3cret@/run/redis.sock", "unix:***"),
            ("unix:///run/redis@1.sock", "unix:///run/redis@1.sock"),
            ("redis+sentinel://a:s3#c/ret@one,two/main", "redis+sentinel://a:***@one,two/main"),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn a_scheme_with_tls_names_the_feature_where_the_build_has_none() {
        for scheme in ["rediss", "rediss+sentinel"] {
            let error = supported(scheme, false).unwrap_err().to_string();
            assert!(error.contains(scheme) && error.contains("feature \"tls\""), "{error}");
            supported(scheme, true).unwrap();
        }
        for scheme in ["redis", "redis+sentinel", "unix"] {
            supported(scheme, false).unwrap();
        }
    }
}
