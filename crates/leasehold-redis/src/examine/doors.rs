//! Who else can get in: a server without a password, or one whose password is heard on the way.

use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use super::health::config;
use super::patient::Patient;

pub(super) async fn look(patient: &mut Patient, client: &Client) {
    let info = client.get_connection_info();
    let ConnectionAddr::Tcp(host, port) = info.addr() else { return };
    let here = is_here(host, *port).await;
    let named = info.redis_settings().password().is_some();
    if !here && named {
        patient.examined().note(
            "plain-text",
            "the password and all that follows it goes over the network as plain text",
            "whoever listens can then end leases, and read who holds what",
            "use rediss:// where the network is not your own",
        );
    }
    if named && !is_open(info.addr()).await {
        return;
    }
    let reachable = match here {
        false => Some("from other machines"),
        // It is open for them too where it listens to them and has no protection.
        true => listens_elsewhere(patient).await.then_some("from other machines as well"),
    };
    if let Some(reachable) = reachable {
        patient.examined().warning(
            "no-password",
            format!("the server lets everybody in without a password, {reachable}"),
            "whoever reaches it can end leases and throw all keys away",
            "set a password or users (requirepass, ACL), and use rediss:// where others can listen",
        );
    }
}

/// True when the host is this machine.
async fn is_here(host: &str, port: u16) -> bool {
    match tokio::net::lookup_host((host, port)).await {
        Ok(mut all) => all.all(|address| address.ip().is_loopback()),
        Err(_) => false,
    }
}

/// True when somebody without a name and a password is let in.
async fn is_open(address: &ConnectionAddr) -> bool {
    let anonymous = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let Ok(info) = address.clone().into_connection_info() else { return false };
    let Ok(client) = Client::open(info.set_redis_settings(anonymous)) else { return false };
    match Patient::reach(&client, "").await {
        Ok(mut patient) => patient.ask(&["PING"]).await.is_ok(),
        Err(_) => false,
    }
}

async fn listens_elsewhere(patient: &mut Patient) -> bool {
    let settings = config(patient, "where the server listens", &["bind", "protected-mode"]).await;
    let Some(settings) = settings else { return false };
    let is = |name: &str, wanted: &str| settings.get(name).is_some_and(|value| value == wanted);
    let elsewhere = settings.get("bind").is_some_and(|bind| {
        let mut addresses = bind.split_whitespace().map(|one| one.trim_start_matches('-'));
        bind.is_empty() || !addresses.all(|one| one.starts_with("127.") || one == "::1")
    });
    elsewhere && is("protected-mode", "no")
}
