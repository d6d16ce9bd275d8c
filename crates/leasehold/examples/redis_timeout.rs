//! A lock on a Redis server with a limit for the wait, and a fenced write. The README shows it.
//!
//! `cargo run -p leasehold --features redis --example redis_timeout`

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use leasehold::ErrorKind;
use leasehold::{Client, Guard};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = leasehold::connect("redis://127.0.0.1:6379").await?;
    play(client, &mut std::io::stdout()).await
}

pub(crate) async fn play(
    client: Client,
    out: &mut impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let order = Order { state: "paid" };
    let lock = client.lock("orders/555").ttl(Duration::from_secs(30));

    match lock.acquire_within(Duration::from_secs(5)).await {
        Ok(guard) => {
            save_if_newer(&order, guard.token().get()).await?;
            guard.release().await?;
        }
        Err(error) if error.kind() == ErrorKind::Timeout => println!("skipped: {error}"),
        Err(error) => return Err(error.into()),
    }
    let row = ROW.lock().unwrap_or_else(PoisonError::into_inner).clone();
    writeln!(out, "order 555 is {}, written with token {}", row.state, row.fence)?;
    if let Err(refused) = save_if_newer(&Order { state: "new" }, row.fence - 1).await {
        writeln!(out, "a late write is refused: {refused}")?;
    }

    lock.run(work).await?;
    writeln!(out, "the work ran under the lock")?;
    client.close().await;
    Ok(())
}

struct Order {
    state: &'static str,
}

/// Stands for the row of the order, with its column `fence`.
#[derive(Clone)]
struct Row {
    state: &'static str,
    fence: u64,
}

static ROW: Mutex<Row> = Mutex::new(Row { state: "new", fence: 0 });

/// Refuses the write if a later holder has written before.
async fn save_if_newer(order: &Order, token: u64) -> Result<(), String> {
    let mut row = ROW.lock().unwrap_or_else(PoisonError::into_inner);
    if token < row.fence {
        return Err(format!("token {token} is older than {}", row.fence));
    }
    *row = Row { state: order.state, fence: token };
    Ok(())
}

async fn work(guard: Guard) {
    assert!(guard.is_valid());
}
