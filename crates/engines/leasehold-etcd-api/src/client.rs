//! The calls: one method each.

use std::fmt;

use crate::connect::{ConnectOptions, Headers, Service};
use crate::error::Result;
use crate::generated::etcdserverpb::auth_client::AuthClient;
use crate::generated::etcdserverpb::cluster_client::ClusterClient;
use crate::generated::etcdserverpb::kv_client::KvClient;
use crate::generated::etcdserverpb::lease_client::LeaseClient;
use crate::generated::etcdserverpb::maintenance_client::MaintenanceClient;
use crate::generated::etcdserverpb::watch_client::WatchClient;
use crate::generated::etcdserverpb::{
    AlarmRequest, AuthenticateRequest, CompactionRequest, DeleteRangeRequest, LeaseGrantRequest,
    LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, MemberListRequest,
    StatusRequest,
};
use crate::generated::v3lockpb::lock_client::LockClient;
use crate::generated::v3lockpb::{LockRequest, UnlockRequest};
use crate::keep_alive::{self, KeepAliveResponses, KeepAliveSender};
use crate::options::{GetOptions, PutOptions};
use crate::watch::{self, WatchOptions, WatchStream};
use crate::{
    AlarmResponse, CompactionResponse, DeleteRangeResponse, LeaseGrantResponse,
    LeaseLeasesResponse, LeaseRevokeResponse, LeaseTimeToLiveResponse, LockResponse,
    MemberListResponse, PutResponse, RangeResponse, StatusResponse, Txn, TxnResponse,
    UnlockResponse,
};

/// A connection to one server. Clones share the connection and the login.
///
/// Each method fails with [`Error::Status`](crate::Error::Status) if the server refuses the call or the connection breaks.
#[derive(Clone)]
pub struct Client {
    service: Service,
    login: Login,
}

/// How the client logs in.
#[derive(Clone)]
struct Login {
    /// The connection without a token.
    service: Service,
    headers: Headers,
    user: Option<(String, String)>,
}

impl Client {
    /// Creates the client of a server, whose URL begins with `http:` or `https:`, and logs in if the options name a user. It needs a
    /// tokio runtime.
    ///
    /// # Errors
    /// [`Error::Transport`](crate::Error::Transport) for an invalid URL or certificate;
    /// [`Error::Status`](crate::Error::Status) if the login fails.
    pub async fn connect(url: &str, options: &ConnectOptions) -> Result<Self> {
        let (channel, headers) = (options.channel(url)?, options.headers());
        let login = Login {
            service: Service::new(channel.clone(), headers.without_token()),
            headers: headers.clone(),
            user: options.user.clone(),
        };
        let client = Self { service: Service::new(channel, headers), login };
        client.log_in().await?;
        Ok(client)
    }

    /// Logs in again, for this client and its clones. Without a user it does nothing.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) if the login fails; the earlier token stays in use.
    pub async fn log_in(&self) -> Result<()> {
        let Login { service, headers, user } = &self.login;
        let Some((name, password)) = user.clone() else { return Ok(()) };
        let request = AuthenticateRequest { name, password };
        let answer = AuthClient::new(service.clone()).authenticate(request).await?;
        headers.set_token(answer.into_inner().token.parse()?);
        Ok(())
    }

    fn kv(&self) -> KvClient<Service> {
        KvClient::new(self.service.clone())
    }

    fn lease(&self) -> LeaseClient<Service> {
        LeaseClient::new(self.service.clone())
    }

    /// Reads a key, or the keys that the options name.
    pub async fn get(
        &self,
        key: impl Into<Vec<u8>>,
        options: Option<GetOptions>,
    ) -> Result<RangeResponse> {
        let request = options.unwrap_or_default().request(key.into());
        Ok(self.kv().range(request).await?.into_inner())
    }

    /// Writes a key.
    pub async fn put(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        options: Option<PutOptions>,
    ) -> Result<PutResponse> {
        let request = options.unwrap_or_default().request(key.into(), value.into());
        Ok(self.kv().put(request).await?.into_inner())
    }

    /// Deletes a key.
    pub async fn delete(&self, key: impl Into<Vec<u8>>) -> Result<DeleteRangeResponse> {
        let request = DeleteRangeRequest { key: key.into(), ..Default::default() };
        Ok(self.kv().delete_range(request).await?.into_inner())
    }

    /// Executes a transaction.
    pub async fn txn(&self, txn: Txn) -> Result<TxnResponse> {
        Ok(self.kv().txn(txn).await?.into_inner())
    }

    /// Forgets all earlier values of keys than those of this revision.
    pub async fn compact(&self, revision: i64) -> Result<CompactionResponse> {
        let request = CompactionRequest { revision, physical: false };
        Ok(self.kv().compact(request).await?.into_inner())
    }

    /// Grants a lease of `ttl` seconds. The server chooses its id if `id` is 0.
    pub async fn lease_grant(&self, id: i64, ttl: i64) -> Result<LeaseGrantResponse> {
        Ok(self.lease().lease_grant(LeaseGrantRequest { ttl, id }).await?.into_inner())
    }

    /// Revokes a lease, which deletes its keys.
    pub async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse> {
        Ok(self.lease().lease_revoke(LeaseRevokeRequest { id }).await?.into_inner())
    }

    /// Reads the remaining time of a lease, in seconds: -1 if it has expired.
    pub async fn lease_time_to_live(&self, id: i64) -> Result<LeaseTimeToLiveResponse> {
        let request = LeaseTimeToLiveRequest { id, keys: false };
        Ok(self.lease().lease_time_to_live(request).await?.into_inner())
    }

    /// Lists the leases.
    pub async fn leases(&self) -> Result<LeaseLeasesResponse> {
        Ok(self.lease().lease_leases(LeaseLeasesRequest {}).await?.into_inner())
    }

    /// Opens a stream that keeps leases alive, and keeps this one alive; the stream does not show the answer for it.
    ///
    /// # Errors
    /// [`Error::NoLease`](crate::Error::NoLease) if the lease has expired; [`Error::Closed`](crate::Error::Closed) if the
    /// server closes the stream at once.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<(KeepAliveSender, KeepAliveResponses)> {
        keep_alive::open(self.lease(), id).await
    }

    /// Opens a stream of watches with a first watch.
    pub async fn watch(
        &self,
        key: impl Into<Vec<u8>>,
        options: Option<WatchOptions>,
    ) -> Result<WatchStream> {
        let watches = WatchClient::new(self.service.clone());
        watch::open(watches, options.unwrap_or_default().request(key.into())).await
    }

    /// Reads the status of the server.
    pub async fn status(&self) -> Result<StatusResponse> {
        let mut maintenance = MaintenanceClient::new(self.service.clone());
        Ok(maintenance.status(StatusRequest {}).await?.into_inner())
    }

    /// Lists the alarms of all members.
    pub async fn alarms(&self) -> Result<AlarmResponse> {
        let mut maintenance = MaintenanceClient::new(self.service.clone());
        // The default action is to read, of all members and all kinds.
        Ok(maintenance.alarm(AlarmRequest::default()).await?.into_inner())
    }

    /// Lists the members of the cluster, as this member knows them.
    pub async fn members(&self) -> Result<MemberListResponse> {
        let mut cluster = ClusterClient::new(self.service.clone());
        Ok(cluster.member_list(MemberListRequest::default()).await?.into_inner())
    }

    /// Acquires a lock of etcd's own lock service under a lease, waiting until it is available.
    pub async fn lock(&self, name: impl Into<Vec<u8>>, lease: i64) -> Result<LockResponse> {
        let request = LockRequest { name: name.into(), lease };
        Ok(LockClient::new(self.service.clone()).lock(request).await?.into_inner())
    }

    /// Releases a lock of etcd's own lock service by its key.
    pub async fn unlock(&self, key: impl Into<Vec<u8>>) -> Result<UnlockResponse> {
        let request = UnlockRequest { key: key.into() };
        Ok(LockClient::new(self.service.clone()).unlock(request).await?.into_inner())
    }
}

/// Shows no token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
