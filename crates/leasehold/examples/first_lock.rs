//! The first lock: acquire, look, write with the token, release.
//!
//! `cargo run -p leasehold --example first_lock` (twice at once, to see one wait).

use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let directory = std::env::temp_dir().join("leasehold-example");
    let client = leasehold::connect(&format!("file:{}", directory.display())).await?;
    let lock = client.lock("orders/555").metadata("the first example");

    let guard = match lock.try_acquire().await? {
        Some(guard) => guard,
        None => {
            let status = lock.status().await?;
            let holder =
                status.holder.map_or("another client".into(), |h| format!("{}/{}", h.host, h.pid));
            println!("held by {holder}, waiting");
            lock.acquire_within(Duration::from_secs(60)).await?
        }
    };
    println!("acquired with token {}", guard.token());

    // The work. The token goes along with every write, so that the other side can refuse a writer
    // that was paused for so long that another client holds the lock now.
    tokio::time::sleep(Duration::from_secs(2)).await;
    guard.ensure(Duration::ZERO)?;

    guard.release().await?;
    println!("released");
    client.close().await;
    Ok(())
}
