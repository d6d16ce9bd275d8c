//! What operations on one lock cost while many wait for it: clients, or tasks of one client.

use leasehold::Client;

use super::handoffs::Takers;
use super::operation::{Figures, Operation, Subject, lease};
use super::shared_connection::SharedConnection;
use crate::Result;
use crate::pairs::Times;
use crate::store::StoreAddress;

/// So many clients begin to wait at a time: all at once, they would wait for the connections to a database.
const TOGETHER: usize = 50;

/// Measures the operations with so many waiting clients, and reports each as soon as it is known.
pub(super) async fn clients(
    place: &StoreAddress,
    waiters: usize,
    times: Times,
    report: &mut impl FnMut(Operation, Figures),
) -> Result<()> {
    let (name, servers) = (format!("{}/clients-{waiters}", place.prefix), place.server_pids());
    let holder = place.connect().await?;
    let lock = holder.lock(&name);
    let held = lock.clone().lease(lease(&holder)).acquire().await?;
    let connection = SharedConnection::open(&place.url, waiters).await?;
    let (mut takers, mut clients) = (Takers::default(), vec![holder.clone()]);
    for begun in 1..=waiters {
        let client = connection.client()?;
        takers.add(client.lock(&name));
        clients.push(client);
        if begun % TOGETHER == 0 || begun == waiters {
            takers.begun(|| connection.waits() >= begun).await?;
        }
    }
    let subject = Subject { client: &holder, free: String::new(), held: &held, prefix: name };
    for operation in [Operation::Renewal, Operation::Status] {
        if let Some(figures) = subject.measure(operation, times, servers).await? {
            report(operation, figures);
        }
    }
    // One holds and the others wait, as before.
    held.release().await?;
    takers.add(lock);
    report(Operation::HandOff, takers.measure(times, servers).await?);
    takers.stop().await;
    close(&clients).await;
    Ok(())
}

/// Measures hand-offs between so many waiting tasks of one client, and the one that holds.
pub(super) async fn tasks(place: &StoreAddress, waiters: usize, times: Times) -> Result<Figures> {
    let client = place.connect().await?;
    let lock = client.lock(format!("{}/tasks-{waiters}", place.prefix));
    let held = lock.acquire().await?;
    let mut takers = Takers::default();
    for _ in 0..=waiters {
        takers.add(lock.clone());
    }
    takers.begun(|| true).await?;
    held.release().await?;
    let figures = takers.measure(times, place.server_pids()).await?;
    takers.stop().await;
    close(&[client]).await;
    Ok(figures)
}

/// Closes all at once: each waits for the end of its attempts.
async fn close(clients: &[Client]) {
    let closing: Vec<_> = clients
        .iter()
        .cloned()
        .map(|client| tokio::spawn(async move { client.close().await }))
        .collect();
    for closed in closing {
        closed.await.ok();
    }
}
