//! What can hurt locks on ZooKeeper: the session that is given, the ensemble, who else may write.

mod server;

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Examined;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use zookeeper_client::{Error as ZkError, Permission};

use crate::address::Address;
use crate::error::from_zk;
use crate::keeper;
use crate::session::Session;

/// A session shorter than this ends in an ordinary pause.
const SHORT: Duration = Duration::from_secs(4);
/// Round trips longer than this, in the middle, cost locks more than they should.
const FAR: Duration = Duration::from_millis(50);
/// How often the way there and back is measured.
const ROUNDS: usize = 11;

/// Looks at the ensemble that a URL names, as far as its user may. Nothing is locked, and nothing is
/// changed.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood; [`ErrorKind::Unavailable`] when no
/// server gives a session.
pub async fn examine(url: StoreUrl) -> Result<Examined> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(ErrorKind::Invalid, "no tokio runtime here: examine inside one"));
    }
    let clock = Clock::system();
    let mut examined = Examined::at(&address.place);
    let session = match keeper::open(&address, &clock, 1).await {
        Ok(session) => session,
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        Err(error) => {
            examined.refused(&error);
            return Ok(examined);
        }
    };
    look_at_session(&mut examined, &address, session.timeout());
    measure(&mut examined, &session, &clock).await;
    look_at_nodes(&mut examined, &address, &session).await;
    server::look(&mut examined, &address).await;
    Ok(examined)
}

fn look_at_session(examined: &mut Examined, address: &Address, given: Duration) {
    let asked = address.session;
    let what = format!("the servers give sessions of {given:?}, and {asked:?} was asked for");
    let why = format!(
        "a lease is valid for half of the session ({:?}), renewed well before: a longer pause of the \
         holder, or of the network, loses all its locks",
        given / 2
    );
    let change = "raise maxSessionTimeout (by default 20 * tickTime) on all servers";
    match given {
        _ if given < SHORT && given < asked => examined.problem("session", what, why, change),
        _ if given < SHORT => {
            examined.warning("session", what, why, "ask for more: session=30s in the URL");
        }
        _ if given < asked => examined.warning("session", what, why, change),
        _ if given > asked => examined.note(
            "session",
            what,
            "after a crash others wait for that long",
            "lower minSessionTimeout (by default 2 * tickTime) on all servers",
        ),
        _ => {}
    }
}

async fn measure(examined: &mut Examined, session: &Session, clock: &Clock) {
    let mut trips = Vec::new();
    for _ in 0..ROUNDS {
        let asked = clock.now();
        if session.stat("/").await.is_err() {
            return examined.unseen("how far away the server is", "it does not answer");
        }
        let spent = clock.now().steady_ns.saturating_sub(asked.steady_ns);
        trips.push(Duration::from_nanos(spent));
    }
    trips.sort();
    let middle = trips[trips.len() / 2];
    if middle > FAR {
        examined.warning(
            "far",
            format!("an answer takes {middle:.1?} (median of {ROUNDS})"),
            "each acquire waits for it several times",
            "name servers in the same place as the clients",
        );
    }
}

/// Whether the user may see the locks, and who else may write them.
async fn look_at_nodes(examined: &mut Examined, address: &Address, session: &Session) {
    let root = address.root.path();
    if let Err(error) = session.list_now(root).await
        && !matches!(error, ZkError::NoNode)
    {
        examined.problem(
            "rights",
            from_zk(error, root).message(),
            "locks can be neither had nor listed",
            "set the ACL of the node so that this user has all rights (crdwa)",
        );
    }
    let open = match session.acl(root).await {
        Ok(Some(acl)) => acl.iter().any(|one| {
            let writing =
                [Permission::CREATE, Permission::DELETE, Permission::WRITE, Permission::ADMIN];
            one.scheme() == "world" && writing.iter().any(|right| one.permission().has(*right))
        }),
        Ok(None) => !address.own,
        Err(error) => {
            return examined.unseen("who may write the nodes", from_zk(error, root).message());
        }
    };
    if !open {
        return;
    }
    let what = format!("everybody may write under {root}");
    let why = "whoever reaches the servers can delete a holder's node, and let in a second one";
    let change = "name a user (zookeeper://user:password@...), whose nodes then are its own; a root that \
                  is there already keeps its ACL until it is set anew";
    if server::is_here(address) {
        examined.note("open", what, why, change);
    } else {
        examined.warning("open", what, why, change);
    }
}
