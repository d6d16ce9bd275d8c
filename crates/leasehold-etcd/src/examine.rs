//! What can hurt locks on etcd: alarms, members, room, rights.

use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Client, Compare, CompareOp, GetOptions, StatusResponse, Txn, TxnOp,
};
use leasehold_core::clock::Clock;
use leasehold_core::doctor::Examined;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

use crate::address::Address;
use crate::connect::options;
use crate::error::sort;
use crate::key::Keys;

/// How long connecting, and each answer, may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Round trips longer than this, in the middle, cost locks more than they should.
const FAR: Duration = Duration::from_millis(50);
/// How often the way there and back is measured.
const ROUNDS: usize = 11;
/// What a server stores at most unless it is told otherwise, in bytes.
const QUOTA: i64 = 2 << 30;

/// Looks at the ensemble that a URL names, as far as its user may. Nothing is locked, and nothing is
/// changed: the right to write is tried by a transaction whose condition never holds.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood; [`ErrorKind::Unavailable`] when no
/// member answers.
pub async fn examine(url: StoreUrl) -> Result<Examined> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(ErrorKind::Invalid, "no tokio runtime here: examine inside one"));
    }
    let mut all = Examined::at(&address.place);
    let (mut client, mut silent, mut late) = (None, None, None);
    for member in &address.members {
        let mut examined = Examined::at(member);
        match reach(&address, member).await {
            Ok((reached, status)) => {
                look_at_member(&mut examined, &status);
                late =
                    late.or_else(|| Some(status.version().to_owned()).filter(|v| revokes_late(v)));
                client.get_or_insert(reached);
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                examined.warning(
                    "silent-member",
                    error.message(),
                    "without it most of the others must still answer",
                    "start it, or see why it cannot be reached",
                );
                silent = Some(error);
            }
            Err(error) => examined.refused(&error),
        }
        all.join(examined);
    }
    match (client, silent) {
        (Some(client), _) => look_at_ensemble(&mut all, &address, client, late).await,
        (None, Some(error)) if all.worst() < Some(leasehold_core::doctor::Severity::Problem) => {
            return Err(error);
        }
        (None, _) => {}
    }
    Ok(all)
}

/// An answer in time.
async fn within<T>(
    asking: impl Future<Output = std::result::Result<T, etcd_client::Error>>,
) -> Result<T> {
    match tokio::time::timeout(LIMIT, asking).await {
        Ok(answer) => answer.map_err(|error| sort(error).1),
        Err(_elapsed) => {
            let what = format!("the server did not answer in {LIMIT:?}");
            Err(Error::new(ErrorKind::Unavailable, what))
        }
    }
}

async fn reach(address: &Address, member: &str) -> Result<(Client, StatusResponse)> {
    let mut client = within(Client::connect([member], Some(options(address)))).await?;
    let status = within(client.status()).await?;
    Ok((client, status))
}

fn look_at_member(examined: &mut Examined, status: &StatusResponse) {
    let mut numbers = status.version().split('.').map_while(|part| part.parse::<u32>().ok());
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next())
        && (major, minor) < (3, 4)
    {
        examined.problem(
            "version",
            format!("the server is etcd {}", status.version()),
            "3.4 or newer is needed",
            "upgrade the server",
        );
    }
    if status.leader() == 0 {
        examined.problem(
            "no-leader",
            "it knows no leader",
            "nothing is granted or renewed without one",
            "see whether most members run and reach each other",
        );
    }
    if status.is_learner() {
        examined.warning(
            "learner",
            "it is a learner, without a vote",
            "it answers little of what clients ask, and stands for nobody that fails",
            "promote it, or name others in the URL",
        );
    }
    let (size, used) = (status.db_size(), status.raft_used_db_size());
    let quota = if status.db_size_quota() > 0 { status.db_size_quota() } else { QUOTA };
    if size >= quota / 10 * 9 {
        examined.warning(
            "size",
            format!("its database has {} of {} MiB, {} of them in use", size >> 20, quota >> 20, used >> 20),
            "a full one raises the alarm NOSPACE, and refuses every write",
            "compact and defragment (etcdctl defrag), set auto-compaction, or raise quota-backend-bytes",
        );
    }
}

/// Whether a leader that wakes up late revokes leases that are not its own to end any more
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

/// `late` is the version of a member that has the fault.
async fn look_at_ensemble(
    all: &mut Examined,
    address: &Address,
    mut client: Client,
    late: Option<String>,
) {
    look_at_alarms(all, &mut client).await;
    match within(client.member_list()).await {
        Ok(list) => {
            look_at_number(all, address, list.members().len());
            // Who is alone leads, and nobody else has renewed anything.
            if let Some(version) = late.filter(|_| list.members().len() > 1) {
                all.warning(
                    "late-revokes",
                    format!("a member is etcd {version}"),
                    "a leader that hangs for longer than a lease revokes, when it wakes, what was \
                     renewed at the leader after it: holders lose, and hear of it a moment later",
                    "upgrade to 3.4.31, 3.5.13 or newer",
                );
            }
        }
        Err(error) => all.unseen("the members of the ensemble", error.message()),
    }
    look_at_rights(all, address, &mut client).await;
    if address.login.is_none() && address.tls.client.is_none() && !is_here(address) {
        all.warning(
            "no-password",
            "the server lets us in without a password or a certificate",
            "whoever reaches it can end leases and remove all keys",
            "create users (etcdctl auth enable), and use etcds:// where others can listen",
        );
    }
}

async fn look_at_alarms(all: &mut Examined, client: &mut Client) {
    let alarms = match within(client.alarm(AlarmAction::Get, AlarmType::None, None)).await {
        Ok(alarms) => alarms,
        Err(error) => return all.unseen("alarms", error.message()),
    };
    for alarm in alarms.alarms() {
        let (what, change) = match alarm.alarm() {
            AlarmType::Nospace => (
                "NOSPACE",
                "compact, defragment (etcdctl defrag), then etcdctl alarm disarm; raise quota-backend-bytes",
            ),
            AlarmType::Corrupt => ("CORRUPT", "take the member out, and let it join again empty"),
            AlarmType::None => continue,
        };
        all.problem(
            "alarm",
            format!("member {:x} has raised the alarm {what}", alarm.member_id()),
            "the ensemble refuses writes: no lock can be had, and releases wait for the leases' end",
            change,
        );
    }
}

fn look_at_number(all: &mut Examined, address: &Address, members: usize) {
    match members {
        1 => all.warning(
            "one-member",
            "there is one member",
            "while it is down there are no locks, and without its disk it forgets all of them",
            "run three or five members",
        ),
        _ if members.is_multiple_of(2) => all.note(
            "even-number",
            format!("there are {members} members"),
            format!("as many may fail as with {}, and one more must answer", members - 1),
            "run an odd number of members",
        ),
        _ => {}
    }
    if address.members.len() < members {
        all.note(
            "named",
            format!("the URL names {} of {members} members", address.members.len()),
            "while those are down, clients do not find the others",
            "name all of them",
        );
    }
}

/// Reads as `list` does, and writes under a condition that never holds: the right is looked at first.
async fn look_at_rights(all: &mut Examined, address: &Address, client: &mut Client) {
    let keys = Keys::new(&address.prefix);
    let (first, end) = keys.locks("");
    let clock = Clock::system();
    let mut trips = Vec::new();
    for _ in 0..ROUNDS {
        let look = GetOptions::new().with_range(end.clone()).with_keys_only().with_limit(1);
        let asked = clock.now();
        if let Err(error) = within(client.get(first.clone(), Some(look))).await {
            return refused(all, "read", &error);
        }
        let spent = clock.now().steady_ns.saturating_sub(asked.steady_ns);
        trips.push(Duration::from_nanos(spent));
    }
    let never = Compare::version(first.clone(), CompareOp::Less, 0);
    let write = TxnOp::put(first.clone(), "", None);
    let write = Txn::new().when([never]).and_then([write]);
    if let Err(error) = within(client.txn(write)).await {
        refused(all, "write", &error);
    }
    trips.sort();
    let middle = trips[trips.len() / 2];
    if middle > FAR {
        all.warning(
            "far",
            format!("an answer takes {middle:.1?} (median of {ROUNDS})"),
            "each acquire waits for it several times",
            "name members in the same place as the clients; look at their disks",
        );
    }
}

fn refused(all: &mut Examined, what: &str, error: &Error) {
    all.problem(
        "rights",
        format!("the user cannot {what} the keys: {}", error.message()),
        "locks are refused",
        "grant this user's role readwrite on the prefix (docs/etcd.md)",
    );
}

/// True when all members are on this machine.
fn is_here(address: &Address) -> bool {
    use std::net::ToSocketAddrs;
    address.members.iter().all(|member| {
        let place = member.split_once("://").map_or(member.as_str(), |(_, place)| place);
        place.to_socket_addrs().is_ok_and(|mut all| all.all(|one| one.ip().is_loopback()))
    })
}

#[cfg(test)]
mod tests {
    use super::revokes_late;

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
