//! A lock on a Redis server, for many machines, with a limit for the wait. The README shows it.
//!
//! `cargo run -p leasehold --features redis --example redis_timeout`

use leasehold::ErrorKind;
use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let client = leasehold::connect("redis://127.0.0.1:6379").await?;
    let lock = client.lock("orders/555").ttl(Duration::from_secs(30));

    match lock.acquire_within(Duration::from_secs(5)).await {
        Ok(guard) => guard.release().await?, // the work comes before it
        Err(error) if error.kind() == ErrorKind::Timeout => println!("skipped: {error}"),
        Err(error) => return Err(error),
    }
    client.close().await;
    Ok(())
}
