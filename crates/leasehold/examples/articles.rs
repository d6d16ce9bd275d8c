//! What the listings of well-known articles do, with Leasehold: the blocks of docs/articles.md.
//!
//! `cargo run -p leasehold --example articles` runs those that need no server. With
//! `--features redis,zookeeper`, `-- redlock` and `-- curator` run the others.

use std::time::Duration;

use leasehold::{Client, ErrorKind, Guard, Result, Token};

/// `SET key value NX PX 30000`, and the release by a script.
async fn plain(client: &Client) -> Result<()> {
    let lock = client.lock("orders/555").lease(Duration::from_secs(30)); // not renewed, as PX 30000
    if let Some(guard) = lock.try_acquire().await? {
        work(&guard).await;
        guard.release().await?; // compares the attempt, in one step
    }
    Ok(())
}

/// `RedissonRedLock` over three servers with a password.
async fn redlock() -> Result<()> {
    let nodes = "172.0.0.1:5378,172.0.0.1:5379,172.0.0.1:5380";
    let client = leasehold::connect(&format!("redlock://:a123456@{nodes}/0")).await?;
    let guard = client.lock("orders/555").acquire().await?; // renewed at a majority every 10 s
    work(&guard).await;
    guard.release().await?;
    client.close().await;
    Ok(())
}

/// `tryLock(100, 10, SECONDS)`.
async fn try_lock(client: &Client) -> Result<()> {
    let lock = client.lock("orders/555").wait(Duration::from_secs(100));
    match lock.lease(Duration::from_secs(10)).acquire().await {
        Ok(guard) => guard.release().await?, // the work comes before it
        Err(error) if error.kind() == ErrorKind::Timeout => println!("not acquired: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A watchdog timeout of 60 s.
async fn watchdog(client: &Client) -> Result<()> {
    let lock = client.lock("orders/555").ttl(Duration::from_secs(60)); // renewed every 20 s
    lock.run(|guard| async move { work(&guard).await }).await?; // cancelled if the lock is lost
    Ok(())
}

/// A loop that looks at `isInterrupted()`.
async fn interrupted(guard: &Guard) -> Result<()> {
    for order in [553, 554, 555] {
        guard.ensure(Duration::from_secs(1))?; // an error if less than a second is left
        update(order, guard.token()).await; // the resource refuses an older token
    }
    Ok(())
}

/// Curator's `InterProcessMutex` on `/locks/orders`, and `acquire(5, SECONDS)`.
async fn curator() -> Result<()> {
    let client = leasehold::connect("zookeeper://one:2181,two:2181,three:2181/locks").await?;
    let guard = client.lock("orders").acquire_within(Duration::from_secs(5)).await?;
    guard.release().await?;
    client.close().await;
    Ok(())
}

/// Ten threads of one instance that want one lock.
async fn ten_tasks(client: &Client) -> Result<()> {
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let lock = client.lock("key1");
            tokio::spawn(async move { lock.acquire().await?.release().await })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics")?;
    }
    Ok(())
}

async fn work(guard: &Guard) {
    println!("holding {} for {:?} at least", guard.name(), guard.remaining());
}

async fn update(order: u32, token: Token) {
    println!("UPDATE orders SET fence = {token} WHERE id = {order} AND fence <= {token}");
}

#[tokio::main]
async fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("redlock") => redlock().await,
        Some("curator") => curator().await,
        _ => play().await,
    }
}

/// Runs the listings that need no server.
pub(crate) async fn play() -> Result<()> {
    let client = leasehold::connect("memory:").await?;
    plain(&client).await?;
    try_lock(&client).await?;
    watchdog(&client).await?;
    let guard = client.lock("orders").acquire().await?;
    interrupted(&guard).await?;
    guard.release().await?;
    ten_tasks(&client).await?;
    client.close().await;
    Ok(())
}
