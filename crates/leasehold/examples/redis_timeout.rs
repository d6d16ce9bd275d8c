//! A lock on a Redis server with a limit for the wait, and a fenced write. The README shows it.
//!
//! `cargo run -p leasehold --features redis --example redis_timeout`

use std::sync::{Mutex, PoisonError};

use leasehold::ErrorKind;
use leasehold::Guard;
use std::time::Duration;

struct Order {
    state: &'static str,
}

/// Stands for the row of the order: its column `fence`.
static FENCE: Mutex<u64> = Mutex::new(0);

/// Refuses the write if a later holder has written before.
async fn save_if_newer(order: &Order, token: u64) -> Result<(), String> {
    let mut fence = FENCE.lock().unwrap_or_else(PoisonError::into_inner);
    if token < *fence {
        return Err(format!("token {token} is older than {fence}"));
    }
    *fence = token;
    println!("order 555 is {}", order.state);
    Ok(())
}

async fn work(guard: Guard) {
    println!("still valid: {}", guard.is_valid());
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let order = Order { state: "paid" };
    let client = leasehold::connect("redis://127.0.0.1:6379").await?;
    let lock = client.lock("orders/555").ttl(Duration::from_secs(30));

    match lock.acquire_within(Duration::from_secs(5)).await {
        Ok(guard) => {
            save_if_newer(&order, guard.token().get()).await?;
            guard.release().await?;
        }
        Err(error) if error.kind() == ErrorKind::Timeout => println!("skipped: {error}"),
        Err(error) => return Err(error.into()),
    }

    lock.run(work).await?;
    client.close().await;
    Ok(())
}
