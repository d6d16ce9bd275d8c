//! The connection to one member and the login there, which goes on when its caller gives up.

use std::sync::Arc;
use std::time::Duration;

use leasehold_etcd_api::{Client, ConnectOptions, Error as EtcdError};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

/// How long a login may take. After it the next request begins another one.
const LOGIN: Duration = Duration::from_secs(30);

/// The connection to a member, made at its first use.
///
/// A server takes a tenth of a second of processor time to check a password, and spends it also if the client has
/// given up. If a login ended with the request that needed it, a loaded server would check passwords and nothing else:
/// each request would end before its login, and the next one would start another. So a login is a task of its own.
/// At most one runs for each member, and later requests wait for it.
pub(crate) struct Login {
    url: String,
    options: ConnectOptions,
    client: Arc<Mutex<Option<LoggedIn>>>,
}

/// A client that has logged in, and how often. Clones share the login.
#[derive(Clone)]
pub(crate) struct LoggedIn {
    pub(crate) client: Client,
    pub(crate) logins: u64,
}

impl Login {
    pub(crate) fn new(url: String, options: ConnectOptions) -> Self {
        Self { url, options, client: Arc::default() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the client of the member, after another login if the one of this number was `refused`.
    pub(crate) async fn client(
        &self,
        runtime: &Handle,
        refused: Option<u64>,
    ) -> Result<LoggedIn, EtcdError> {
        let mut slot = self.client.clone().lock_owned().await;
        if let Some(known) = slot.as_ref().filter(|known| refused != Some(known.logins)) {
            return Ok(known.clone());
        }
        let (url, options) = (self.url.clone(), self.options.clone());
        let login = runtime.spawn(async move {
            let login = async {
                match &*slot {
                    None => {
                        let client = Client::connect(&url, &options).await?;
                        Ok(LoggedIn { client, logins: 1 })
                    }
                    Some(old) => {
                        old.client.log_in().await?;
                        Ok(LoggedIn { client: old.client.clone(), logins: old.logins + 1 })
                    }
                }
            };
            let ended = tokio::time::timeout(LOGIN, login).await;
            let next = ended.unwrap_or_else(|late| Err(EtcdError::Io(late.into())))?;
            *slot = Some(next.clone());
            Ok(next)
        });
        // It ends without a result only with its runtime.
        login.await.map_err(|ended| EtcdError::Io(ended.into()))?
    }
}

/// Returns true if the server does not know the login: it has expired, or the server or its users have changed.
pub(crate) fn is_refused(error: &EtcdError) -> bool {
    matches!(error, EtcdError::Status(status) if status.message().contains("invalid auth token"))
}
