//! Checks for what can harm locks on ZooKeeper: session timeout, ensemble, other writers.

pub(crate) mod server;

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use zookeeper_client::{Error as ZkError, Permission};

use crate::address::Address;
use crate::error::from_zk;
use crate::session::Session;
use crate::session_keeper;

/// A session shorter than this expires in an ordinary pause.
const SHORT: Duration = Duration::from_secs(4);
/// Median round trips above this slow down locks considerably.
const FAR: Duration = Duration::from_millis(50);
/// An answer of a server.
type Answer<T> = std::result::Result<T, ZkError>;

/// The number of measured round trips.
const ROUNDS: usize = 11;

/// Checks the ensemble of a URL, as far as the user's permissions allow. Acquires no lock and
/// changes nothing.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL; [`ErrorKind::Unavailable`] if no server opens a
/// session.
pub async fn diagnose(url: StoreUrl) -> Result<Diagnosis> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime; call diagnose inside a tokio runtime",
        ));
    }
    let clock = Clock::system();
    let mut diagnosis = Diagnosis::at(&address.place);
    let session = match session_keeper::open(&address, &clock, 1).await {
        Ok(session) => session,
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        Err(error) => {
            diagnosis.refused(&error);
            return Ok(diagnosis);
        }
    };
    look_at_session(&mut diagnosis, &address, session.timeout());
    let by_session = async {
        let mut diagnosis = Diagnosis::at(&address.place);
        look(&mut diagnosis, &address, &session, &clock).await;
        diagnosis
    };
    look_everywhere(&mut diagnosis, &address, by_session).await;
    Ok(diagnosis)
}

/// Sends the four-letter words while the session sends its requests, so that a server that answers
/// neither costs one timeout.
async fn look_everywhere(
    diagnosis: &mut Diagnosis,
    address: &Address,
    by_session: impl Future<Output = Diagnosis>,
) {
    let mut servers = Diagnosis::at(&address.place);
    let (session, ()) = tokio::join!(by_session, server::look(&mut servers, address));
    diagnosis.join(session);
    diagnosis.join(servers);
}

/// Checks what the session can read. After a missing answer it sends no further request, because
/// each one would wait as long.
async fn look(diagnosis: &mut Diagnosis, address: &Address, session: &Session, clock: &Clock) {
    if let Err(error) = measure(diagnosis, session, clock).await {
        let why = from_zk(error, address.root.path());
        return diagnosis.unseen("the round trip time, and the nodes", why.message());
    }
    if let Err(error) = look_at_nodes(diagnosis, address, session).await {
        diagnosis.unseen("who may write the nodes", from_zk(error, address.root.path()).message());
    }
}

/// Waits for an answer, 5 s at most.
async fn within<T>(request: impl Future<Output = Answer<T>>) -> Answer<T> {
    tokio::time::timeout(session_keeper::LIMIT, request).await.unwrap_or(Err(ZkError::Timeout))
}

fn look_at_session(diagnosis: &mut Diagnosis, address: &Address, given: Duration) {
    let asked = address.session;
    let what = format!("the servers grant sessions of {given:?}; the client requested {asked:?}");
    let why = format!(
        "a lease is valid for half of the session ({:?}), renewed well before: a longer pause of the \
         holder, or of the network, loses all its locks",
        given / 2
    );
    let change = "raise maxSessionTimeout (by default 20 * tickTime) on all servers";
    match given {
        _ if given < SHORT && given < asked => diagnosis.problem("session", what, why, change),
        _ if given < SHORT => {
            diagnosis.warning("session", what, why, "request a longer one: session=30s in the URL");
        }
        _ if given < asked => diagnosis.warning("session", what, why, change),
        _ if given > asked => diagnosis.note(
            "session",
            what,
            "after a crash of the holder, waiters wait for that long",
            "lower minSessionTimeout (by default 2 * tickTime) on all servers",
        ),
        _ => {}
    }
}

async fn measure(diagnosis: &mut Diagnosis, session: &Session, clock: &Clock) -> Answer<()> {
    let mut trips = Vec::new();
    for _ in 0..ROUNDS {
        let asked = clock.now();
        within(session.stat("/")).await?;
        let spent = clock.now().steady_ns.saturating_sub(asked.steady_ns);
        trips.push(Duration::from_nanos(spent));
    }
    trips.sort();
    let middle = trips[trips.len() / 2];
    if middle > FAR {
        diagnosis.warning(
            "far",
            format!("a round trip takes {middle:.1?} (median of {ROUNDS})"),
            "each acquire needs several round trips",
            "use servers close to the clients",
        );
    }
    Ok(())
}

/// Checks whether the user may read the locks, and who else may write them.
async fn look_at_nodes(
    diagnosis: &mut Diagnosis,
    address: &Address,
    session: &Session,
) -> Answer<()> {
    let root = address.root.path();
    if let Err(error) = within(session.list_now(root)).await
        && !matches!(error, ZkError::NoNode)
    {
        if is_silence(&error) {
            return Err(error);
        }
        diagnosis.problem(
            "rights",
            from_zk(error, root).message(),
            "locks can be neither acquired nor listed",
            "set the ACL of the node so that this user has all rights (crdwa)",
        );
    }
    let open = match within(session.acl(root)).await? {
        Some(acl) => acl.iter().any(|one| {
            let writing =
                [Permission::CREATE, Permission::DELETE, Permission::WRITE, Permission::ADMIN];
            one.scheme() == "world" && writing.iter().any(|right| one.permission().has(*right))
        }),
        None => !address.own,
    };
    if !open {
        return Ok(());
    }
    let what = format!("every client may write under {root}");
    let why =
        "any client that reaches the servers can delete a holder's node, so that two hold the lock";
    let change = "name a user in the URL (zookeeper://user:password@...), who then owns the new \
                  nodes; set the ACL of an existing root by hand";
    if server::is_here(address) {
        diagnosis.note("open", what, why, change);
    } else {
        diagnosis.warning("open", what, why, change);
    }
    Ok(())
}

/// Returns true if the server did not answer. A refusal is an answer.
fn is_silence(error: &ZkError) -> bool {
    matches!(error, ZkError::Timeout | ZkError::ConnectionLoss | ZkError::SessionExpired)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
#[allow(clippy::disallowed_methods, reason = "tests measure time")]
mod tests {
    use leasehold_conformance::before_any_time_limit;
    use leasehold_test_servers::{Needs, Proxy, ZooKeeperServer, ZooKeeperSettings};

    use super::*;

    /// The paused clock advances as soon as the client waits only for timers. So the elapsed time
    /// is the sum of all waits.
    #[tokio::test]
    async fn doctor_waits_for_a_server_that_falls_silent_once() {
        if Needs::ZooKeeper.is_skipped() {
            return;
        }
        let server = ZooKeeperServer::start(ZooKeeperSettings::new()).unwrap();
        let proxy = Proxy::opaque(server.address()).unwrap();
        let url = format!("zookeeper://{}", proxy.address());
        let address = Address::parse(StoreUrl::parse(&url).unwrap()).unwrap();
        let clock = Clock::system();
        let session = session_keeper::open(&address, &clock, 1).await.unwrap();
        let mut diagnosis = Diagnosis::at(&address.place);
        proxy.cut_all();
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        look(&mut diagnosis, &address, &session, &clock).await;
        assert!(begun.elapsed().as_secs() <= session_keeper::LIMIT.as_secs(), "{diagnosis:?}");
        assert_eq!((diagnosis.findings.len(), diagnosis.unseen.len()), (0, 1), "{diagnosis:?}");
    }

    #[tokio::test]
    async fn doctor_sends_four_letter_words_before_it_waits_for_the_session() {
        // This server accepts connections, but never answers.
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::opaque(server.local_addr().unwrap()).unwrap();
        let url = format!("zookeeper://{}", proxy.address());
        let address = Address::parse(StoreUrl::parse(&url).unwrap()).unwrap();
        let mut diagnosis = Diagnosis::at(&address.place);
        tokio::time::pause();
        let looking = look_everywhere(&mut diagnosis, &address, std::future::pending());
        assert!(before_any_time_limit(looking, || proxy.connections_made() > 0).await);
    }
}
