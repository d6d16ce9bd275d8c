//! Checks for what can harm locks on etcd: alarms, members, disk space, permissions.

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use leasehold_etcd_api::{
    AlarmType, Client, Compare, CompareOp, GetOptions, StatusResponse, Txn, TxnOp,
};

use crate::address::Address;
use crate::connect::options;
use crate::error::{Cause, HANGS_UP, sort};
use crate::key::Keys;

/// How long the connection, and each answer, may take if connections are fast.
const LIMIT: Duration = Duration::from_secs(5);
/// Median round trips above this slow down locks considerably.
const FAR: Duration = Duration::from_millis(50);
/// The number of measured round trips.
const ROUNDS: usize = 11;
/// The default quota of a server, in bytes.
const QUOTA: i64 = 2 << 30;

/// Checks the cluster of a URL, as far as the user's permissions allow. Acquires no lock and changes
/// nothing: it tests the permission to write by a transaction whose condition is never true.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL; [`ErrorKind::Unavailable`] if no member answers.
pub async fn diagnose(url: StoreUrl) -> Result<Diagnosis> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime; call diagnose inside a tokio runtime",
        ));
    }
    let mut all = Diagnosis::at(&address.place);
    let (mut client, mut silent, mut late) = (None, None, None);
    // Ask all members at once, so that several silent ones cost one timeout.
    let reaching = address.members.iter().map(|member| reach(&address, member));
    let reached = futures_util::future::join_all(reaching).await;
    for (member, reached) in address.members.iter().zip(reached) {
        let mut diagnosis = Diagnosis::at(member);
        match reached {
            Ok((reached, status)) => {
                look_at_member(&mut diagnosis, &status);
                late = late.or_else(|| Some(status.version.clone()).filter(|v| revokes_late(v)));
                client.get_or_insert(reached);
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                diagnosis.warning(
                    "silent-member",
                    error.message(),
                    "without it, a majority of all members must still answer",
                    "start it, or find out why it cannot be reached",
                );
                silent = Some(error);
            }
            Err(error) => diagnosis.refused(&error),
        }
        all.join(diagnosis);
    }
    match (client, silent) {
        (Some(client), _) => look_at_cluster(&mut all, &address, client, late).await,
        (None, Some(error)) if all.worst() < Some(leasehold_core::doctor::Severity::Problem) => {
            return Err(error);
        }
        (None, _) => {}
    }
    Ok(all)
}

/// Whether a member answers.
#[derive(Debug, Default)]
struct Silence {
    /// The time to add to the limit, for a connection that may be slow.
    extra: Duration,
    /// An answer did not arrive in time. Each further request would wait as long.
    is_silent: bool,
    /// The connection broke during the last request.
    is_broken: bool,
}

impl Silence {
    /// Waits for an answer, 5 s and the extra time at most. After a missing answer it sends no further request.
    async fn within<T>(
        &mut self,
        asking: impl Future<Output = std::result::Result<T, leasehold_etcd_api::Error>>,
    ) -> Result<T> {
        let limit = LIMIT + self.extra;
        if !self.is_silent {
            match tokio::time::timeout(limit, asking).await {
                Ok(answer) => {
                    return answer.map_err(|error| {
                        let (cause, error) = sort(error);
                        let hangs_up = error.message().starts_with(HANGS_UP);
                        self.is_broken = cause == Cause::Unreached || hangs_up;
                        error
                    });
                }
                Err(_elapsed) => self.is_silent = true,
            }
        }
        let what = format!("the server did not answer in {limit:?}");
        Err(Error::new(ErrorKind::Unavailable, what))
    }
}

async fn reach(address: &Address, member: &str) -> Result<(Client, StatusResponse)> {
    let mut silence = Silence { extra: address.extra_time(), ..Silence::default() };
    let options = options(address);
    let connecting = Client::connect(member, &options);
    let client = silence.within(connecting).await?;
    let status = silence.within(client.status()).await?;
    Ok((client, status))
}

fn look_at_member(diagnosis: &mut Diagnosis, status: &StatusResponse) {
    let mut numbers = status.version.split('.').map_while(|part| part.parse::<u32>().ok());
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next())
        && (major, minor) < (3, 4)
    {
        diagnosis.problem(
            "version",
            format!("the server is etcd {}", status.version),
            "3.4 or newer is needed",
            "upgrade the server",
        );
    }
    if status.leader == 0 {
        diagnosis.problem(
            "no-leader",
            "the member has no leader",
            "no lease is granted or renewed without a leader",
            "check that a majority of the members run and reach each other",
        );
    }
    if status.is_learner {
        diagnosis.warning(
            "learner",
            "the member is a learner, without a vote",
            "it serves few kinds of requests, and does not replace a failed member",
            "promote it, or name other members in the URL",
        );
    }
    let (size, used) = (status.db_size, status.db_size_in_use);
    let quota = if status.db_size_quota > 0 { status.db_size_quota } else { QUOTA };
    if size >= quota / 10 * 9 {
        diagnosis.warning(
            "size",
            format!("the database uses {} of {} MiB, {} MiB of them for data", size >> 20, quota >> 20, used >> 20),
            "a full database raises the alarm NOSPACE and refuses every write",
            "compact and defragment (etcdctl defrag), set auto-compaction, or raise quota-backend-bytes",
        );
    }
}

/// Returns whether a deposed leader that resumes after a pause still revokes leases
/// (etcd-io/etcd#15247).
fn revokes_late(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(3), Some(4), Some(patch)) => patch < 31,
        (Some(3), Some(5), Some(patch)) => patch < 13,
        (Some(major), Some(minor), _) => (major, minor) < (3, 4),
        _ => false,
    }
}

/// Checks the cluster as a whole. `late` is the version of a member that has the defect.
async fn look_at_cluster(
    all: &mut Diagnosis,
    address: &Address,
    client: Client,
    late: Option<String>,
) {
    let mut silence = Silence::default();
    look_at_alarms(all, &client, &mut silence).await;
    match silence.within(client.members()).await {
        Ok(list) => {
            look_at_number(all, address, list.members.len());
            // A single member is always the leader, and no other member has renewed a lease.
            if let Some(version) = late.filter(|_| list.members.len() > 1) {
                all.warning(
                    "late-revokes",
                    format!("a member is etcd {version}"),
                    "a leader that hangs for longer than a lease revokes, when it resumes, leases that were \
                     renewed by the next leader: holders lose their locks, and detect that only later",
                    "upgrade to 3.4.31, 3.5.13 or newer",
                );
            }
        }
        Err(error) => all.unseen("the members of the cluster", error.message()),
    }
    look_at_rights(all, address, &client, &mut silence).await;
    if address.login.is_none() && address.tls.client.is_none() && !is_here(address) {
        all.warning(
            "no-password",
            "the server accepts clients without a password or a certificate",
            "any client that reaches it can revoke leases and delete all keys",
            "create users (etcdctl auth enable), and use etcds:// on networks that are not private",
        );
    }
}

async fn look_at_alarms(all: &mut Diagnosis, client: &Client, silence: &mut Silence) {
    let alarms = match silence.within(client.alarms()).await {
        Ok(alarms) => alarms,
        Err(error) => return all.unseen("alarms", error.message()),
    };
    for alarm in alarms.alarms {
        let (what, change) = match alarm.alarm() {
            AlarmType::Nospace => (
                "NOSPACE",
                "compact, defragment (etcdctl defrag), then etcdctl alarm disarm; raise quota-backend-bytes",
            ),
            AlarmType::Corrupt => {
                ("CORRUPT", "remove the member, and add it again with an empty data directory")
            }
            AlarmType::None => continue,
        };
        all.problem(
            "alarm",
            format!("member {:x} has raised the alarm {what}", alarm.member_id),
            "the cluster refuses writes: locks cannot be acquired, and stay held until their leases expire",
            change,
        );
    }
}

fn look_at_number(all: &mut Diagnosis, address: &Address, members: usize) {
    match members {
        1 => all.warning(
            "one-member",
            "the cluster has one member",
            "while it is down no lock can be acquired, and a loss of its disk loses all locks",
            "run three or five members",
        ),
        _ if members.is_multiple_of(2) => all.note(
            "even-number",
            format!("the cluster has {members} members"),
            format!(
                "it tolerates no more failures than {} members, but one more must answer",
                members - 1
            ),
            "run an odd number of members",
        ),
        _ => {}
    }
    if address.members.len() < members {
        all.note(
            "named",
            format!("the URL names {} of {members} members", address.members.len()),
            "while those are down, clients cannot find the others",
            "name all of them",
        );
    }
}

/// Reads as `list` does, and writes under a condition that is never true: etcd checks the
/// permissions before the condition.
async fn look_at_rights(
    all: &mut Diagnosis,
    address: &Address,
    client: &Client,
    silence: &mut Silence,
) {
    let keys = Keys::new(&address.prefix);
    let (first, end) = keys.names("");
    let clock = Clock::system();
    let mut trips = Vec::new();
    for _ in 0..ROUNDS {
        let look = GetOptions::new().with_range(end.clone()).with_keys_only().with_limit(1);
        let asked = clock.now();
        if let Err(error) = silence.within(client.get(first.clone(), Some(look))).await {
            return refused(all, "read", silence, &error);
        }
        let spent = clock.now().steady_ns.saturating_sub(asked.steady_ns);
        trips.push(Duration::from_nanos(spent));
    }
    let never = Compare::version(first.clone(), CompareOp::Less, 0);
    let write = TxnOp::put(first.clone(), "", None);
    let write = Txn::new().when([never]).and_then([write]);
    if let Err(error) = silence.within(client.txn(write)).await {
        refused(all, "write", silence, &error);
    }
    trips.sort();
    let middle = trips[trips.len() / 2];
    if middle > FAR {
        all.warning(
            "far",
            format!("a round trip takes {middle:.1?} (median of {ROUNDS})"),
            "each acquire needs several round trips",
            "use members close to the clients, and check the latency of their disks",
        );
    }
}

fn refused(all: &mut Diagnosis, what: &str, silence: &Silence, error: &Error) {
    let unknown = format!("whether the user can {what} the keys");
    match error.kind() {
        _ if silence.is_silent => return all.unseen(unknown, error.message()),
        // The server did not refuse.
        ErrorKind::Unavailable if silence.is_broken => {
            return all.unseen(unknown, format!("the connection broke: {}", error.message()));
        }
        ErrorKind::Unavailable => return all.unseen(unknown, error.message()),
        _ => {}
    }
    all.problem(
        "rights",
        format!("the user cannot {what} the keys: {}", error.message()),
        "locks cannot be acquired",
        "grant the user's role readwrite on the prefix (docs/etcd.md)",
    );
}

/// Returns true if all members are on this machine.
fn is_here(address: &Address) -> bool {
    use std::net::ToSocketAddrs;
    address.members.iter().all(|member| {
        let place = member.split_once("://").map_or(member.as_str(), |(_, place)| place);
        place.to_socket_addrs().is_ok_and(|mut all| all.all(|one| one.ip().is_loopback()))
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests measure time")]
mod tests {
    use std::net::SocketAddr;

    use leasehold_conformance::before_any_time_limit;
    use leasehold_test_servers::{EtcdServer, EtcdSettings, Needs, Proxy};

    use super::*;

    /// The paused clock advances as soon as the client waits only for timers. So the elapsed time
    /// is the sum of all waits.
    #[tokio::test]
    async fn doctor_waits_for_a_member_that_falls_silent_once() {
        if Needs::Etcd.is_skipped() {
            return;
        }
        let server = EtcdServer::start(EtcdSettings::new()).unwrap();
        let proxy = Proxy::opaque(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap();
        let url = format!("etcd://{}", proxy.address());
        let address = Address::parse(StoreUrl::parse(&url).unwrap()).unwrap();
        let (client, _) = reach(&address, &address.members[0]).await.unwrap();
        proxy.cut_all();
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        let mut all = Diagnosis::at(&address.place);
        look_at_cluster(&mut all, &address, client, None).await;
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs(), "{all:?}");
        assert_eq!((all.findings.len(), all.unseen.len()), (0, 3), "{all:?}");
    }

    #[tokio::test]
    async fn doctor_asks_all_members_before_it_waits_for_one() {
        // This server accepts connections, but never answers.
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let members: Vec<Proxy> =
            (0..3).map(|_| Proxy::opaque(server.local_addr().unwrap()).unwrap()).collect();
        let places: Vec<String> =
            members.iter().map(|member| member.address().to_string()).collect();
        let url = StoreUrl::parse(&format!("etcd://{}", places.join(","))).unwrap();
        tokio::time::pause();
        let asked = || members.iter().all(|member| member.connections_made() > 0);
        assert!(before_any_time_limit(diagnose(url), asked).await);
    }

    #[tokio::test]
    async fn doctor_says_that_the_connection_broke() {
        if Needs::Etcd.is_skipped() {
            return;
        }
        let server = EtcdServer::start(EtcdSettings::new()).unwrap();
        let proxy = Proxy::opaque(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap();
        let url = format!("etcd://{}", proxy.address());
        let address = Address::parse(StoreUrl::parse(&url).unwrap()).unwrap();
        let (client, _) = reach(&address, &address.members[0]).await.unwrap();
        proxy.refuse_connections(true).unwrap();
        proxy.kill_connections();
        let mut all = Diagnosis::at(&address.place);
        look_at_rights(&mut all, &address, &client, &mut Silence::default()).await;
        assert!(all.findings.is_empty(), "{all:?}");
        assert!(format!("{:?}", all.unseen).contains("the connection broke"), "{all:?}");
    }

    #[test]
    fn versions_whose_leaders_revoke_too_late_are_known() {
        for (version, late) in [
            ("3.3.27", true),
            ("3.4.23", true),
            ("3.4.31", false),
            ("3.5.0-rc.1", true),
            ("3.5.12", true),
            ("3.5.13", false),
            ("3.6.0", false),
            ("", false),
        ] {
            assert_eq!(revokes_late(version), late, "{version}");
        }
    }
}
