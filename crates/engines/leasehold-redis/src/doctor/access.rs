//! Checks access by others: a server without a password, or a password that is sent in plain
//! text.

use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use super::health::config;
use super::probe::Probe;

pub(super) async fn look(probe: &mut Probe, client: &Client) {
    let info = client.get_connection_info();
    let ConnectionAddr::Tcp(host, port) = info.addr() else { return };
    let here = is_here(host, *port).await;
    let named = info.redis_settings().password().is_some();
    if !here && named {
        probe.diagnosis().note(
            "plain-text",
            "the password and all data go over the network as plain text",
            "a listener on the network can end leases, and read which process holds which lock",
            "use rediss:// on a network that you do not control",
        );
    }
    // A silent server would be waited for once more.
    if probe.found.is_silent || (named && !is_open(info.addr()).await) {
        return;
    }
    let reachable = match here {
        false => Some("from other machines"),
        // It is open to other machines if it listens to them without protection.
        true => listens_elsewhere(probe).await.then_some("from other machines as well"),
    };
    if let Some(reachable) = reachable {
        probe.diagnosis().warning(
            "no-password",
            format!("the server accepts every client without a password, {reachable}"),
            "any client that reaches it can end leases and delete all keys",
            "set a password or users (requirepass, ACL), and use rediss:// on shared networks",
        );
    }
}

/// Returns true if the host is this machine.
async fn is_here(host: &str, port: u16) -> bool {
    match tokio::net::lookup_host((host, port)).await {
        Ok(mut all) => all.all(|address| address.ip().is_loopback()),
        Err(_) => false,
    }
}

/// Returns true if the server accepts a client without a user and password.
async fn is_open(address: &ConnectionAddr) -> bool {
    let anonymous = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let Ok(info) = address.clone().into_connection_info() else { return false };
    let Ok(client) = Client::open(info.set_redis_settings(anonymous)) else { return false };
    match Probe::reach(&client, "").await {
        Ok(mut probe) => probe.ask(&["PING"]).await.is_ok(),
        Err(_) => false,
    }
}

async fn listens_elsewhere(probe: &mut Probe) -> bool {
    let settings = config(probe, "where the server listens", &["bind", "protected-mode"]).await;
    let Some(settings) = settings else { return false };
    let is = |name: &str, wanted: &str| settings.get(name).is_some_and(|value| value == wanted);
    let elsewhere = settings.get("bind").is_some_and(|bind| {
        let mut addresses = bind.split_whitespace().map(|one| one.trim_start_matches('-'));
        bind.is_empty() || !addresses.all(|one| one.starts_with("127.") || one == "::1")
    });
    elsewhere && is("protected-mode", "no")
}
