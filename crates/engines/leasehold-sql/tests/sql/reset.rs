//! Connections that are reset in the middle of a packet. The server executes it to its end, and commits it.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::JoinHandle;

use leasehold_conformance::until;
use leasehold_core::backend::{Backend, Verdict};
use leasehold_test_servers::{MariaDb, Proxy};

use crate::connection::through;
use crate::side::{Side, release};
use crate::{Test, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_hand_on_whose_connection_is_reset_leaves_no_waiter_behind, MySql),
    test!(a_waiter_whose_connection_is_reset_is_marked_in_the_row, MySql),
];

async fn a_hand_on_whose_connection_is_reset_leaves_no_waiter_behind() {
    let server = Arc::new(MariaDb::start(&[]).unwrap());
    let proxy = Proxy::opaque(server.address()).unwrap();
    let mut far = Side::connect(&through(&server.url(), &proxy), 1).await;
    let mut near = Side::connect(&server.url(), 2).await;
    let held = far.request(secs(60));
    let grant = far.granted(&held).await;
    let waits = near.request(secs(60)).with_wait(true);
    near.queued(&waits).await;

    let step = Held::before(&server, "UPDATE ON leasehold_locks", "NEW.confirmed = 0").await;
    reset_while_it_waits(far.backend.release(release(&held, grant)), &server, &proxy).await;
    step.let_go(&server).await;
    let holder = "SELECT HEX(attempt), confirmed, (SELECT COUNT(*) FROM leasehold_waiters) FROM leasehold_locks";
    let expected = format!("{}\t0\t0", waits.attempt.to_string().to_uppercase());
    assert_eq!(server.sql(holder).unwrap(), expected, "it holds the lock, and still waits");
}

async fn a_waiter_whose_connection_is_reset_is_marked_in_the_row() {
    let server = Arc::new(MariaDb::start(&[]).unwrap());
    let proxy = Proxy::opaque(server.address()).unwrap();
    let mut far = Side::connect(&through(&server.url(), &proxy), 1).await;
    let mut near = Side::connect(&server.url(), 2).await;
    let held = near.request(secs(60));
    let grant = near.granted(&held).await;
    let waits = far.request(secs(60)).with_wait(true);

    let step = Held::before(&server, "INSERT ON leasehold_waiters", "TRUE").await;
    reset_while_it_waits(far.backend.acquire(waits.clone()), &server, &proxy).await;
    step.let_go(&server).await;
    let queued = "SELECT line, (SELECT COUNT(*) FROM leasehold_waiters) FROM leasehold_locks";
    assert_eq!(server.sql(queued).unwrap(), "1\t1", "no release would see the waiter");

    far.queued(&waits).await;
    assert_eq!(near.verdict(&release(&held, grant)).await, Verdict::Released);
    let next = "SELECT HEX(attempt) FROM leasehold_locks";
    assert_eq!(server.sql(next).unwrap(), waits.attempt.to_string().to_uppercase());
}

/// Sends a request, and resets its connection as soon as the server is held inside its packet.
async fn reset_while_it_waits(request: impl Future, server: &MariaDb, proxy: &Proxy) {
    let mut request = std::pin::pin!(request);
    let held = || async { processes(server, "state = 'User lock'") == "1" };
    tokio::select! {
        _ = &mut request => panic!("the server was not held"),
        held = until("the server is held", held) => held.unwrap(),
    }
    // The request is neither polled nor dropped until then, so its connection is not closed in order.
    proxy.kill_connections();
    let reset = || async { proxy.connections_from(Ipv4Addr::LOCALHOST.into()) == 0 };
    until("the connection is reset", reset).await.unwrap();
}

/// A kind of statement, held by a trigger that waits for a lock of the server, which a connection of its own has.
struct Held(JoinHandle<()>);

impl Held {
    async fn before(server: &Arc<MariaDb>, statement: &str, rows: &str) -> Self {
        let trigger = format!(
            "CREATE TRIGGER held BEFORE {statement} FOR EACH ROW \
             DO IF({rows}, GET_LOCK('held', 170) AND RELEASE_LOCK('held'), 0)"
        );
        server.sql(&trigger).unwrap();
        let own = Arc::clone(server);
        let holding = move || drop(own.sql("DO GET_LOCK('held', 0); DO SLEEP(170)"));
        let held = Self(std::thread::spawn(holding));
        until("it is held", || async { processes(server, SLEEPS) == "1" }).await.unwrap();
        held
    }

    /// Returns when no packet is being executed any more.
    async fn let_go(self, server: &MariaDb) {
        let sleeping = format!("SELECT id FROM information_schema.processlist WHERE {SLEEPS}");
        server.sql(&format!("KILL {}", server.sql(&sleeping).unwrap())).unwrap();
        self.0.join().unwrap();
        let done =
            || async { processes(server, "user = 'leasehold' AND command = 'Query'") == "0" };
        until("no packet is executed", done).await.unwrap();
    }
}

const SLEEPS: &str = "command = 'Query' AND info LIKE 'DO SLEEP%'";

/// Returns how many connections the server has of this kind.
fn processes(server: &MariaDb, which: &str) -> String {
    let all = "SELECT COUNT(*) FROM information_schema.processlist WHERE";
    server.sql(&format!("{all} {which}")).unwrap()
}
