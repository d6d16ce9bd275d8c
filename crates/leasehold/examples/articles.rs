//! What the listings of well-known articles do, with Leasehold: the blocks of docs/articles.md.
//!
//! `cargo run -p leasehold --example articles` runs those that need no server. With
//! `--features redis,zookeeper`, `-- redlock` and `-- curator` run the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{Client, ErrorKind, Guard, Result, Token};

#[tokio::main]
async fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("redlock") => redlock().await,
        Some("curator") => curator().await,
        _ => play().await,
    }
}

/// Runs the listings that need no server.
async fn play() -> Result<()> {
    let client = leasehold::connect("memory:").await?;
    println!("SET key value NX PX 30000");
    plain(&client).await?;
    println!("repeated after a timeout");
    repeated(&client).await?;
    println!("while (!tryLock()) sleep");
    spin(&client).await?;
    println!("lock(), unlock()");
    redisson(&client).await?;
    println!("tryLock(100, 10, SECONDS)");
    try_lock(&client).await?;
    println!("watchdog of 60 s");
    watchdog(&client).await?;
    println!("isLocked(), and re-entry");
    is_locked(&client).await?;
    println!("isInterrupted()");
    let guard = client.lock("orders").acquire().await?;
    interrupted(&guard).await?;
    steps(&guard).await?;
    guard.release().await?;
    println!("10 tasks");
    ten_tasks(&client).await?;
    client.close().await;
    Ok(())
}

/// `SET key value NX PX 30000`, and the release by a script.
async fn plain(client: &Client) -> Result<()> {
    let lock = client.lock("orders/555").lease(Duration::from_secs(30)); // not renewed, as PX 30000
    if let Some(guard) = lock.try_acquire().await? {
        work(&guard).await;
        guard.release().await?; // compares the attempt, in one step
    }
    Ok(())
}

/// The three cases after a `SETNX` without an answer.
async fn repeated(client: &Client) -> Result<()> {
    let guard = client.lock("order:555").acquire().await?; // repeats this attempt until it is answered
    println!("  attempt {} has token {}", guard.attempt(), guard.token());
    guard.release().await
}

/// A loop that sleeps, with a limit for the whole wait; the lock is held meanwhile, and then it is not.
async fn spin(client: &Client) -> Result<()> {
    let first = client.lock("orders/555").acquire().await?;
    let refused = client.lock("orders/555").try_acquire().await?;
    println!("  try_acquire while it is held: {refused:?}");
    wait_for_100_ms(client).await?;

    let second = client.lock("orders/555");
    let waiter = tokio::spawn(async move { second.acquire_within(Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    let old = first.token();
    first.release().await?; // hands the lease to the first waiter
    let guard = waiter.await.expect("the task does not panic")?;
    println!("  acquired after the release, with a larger token: {}", guard.token() > old);
    guard.release().await
}

async fn wait_for_100_ms(client: &Client) -> Result<()> {
    match client.lock("orders/555").acquire_within(Duration::from_millis(100)).await {
        Ok(guard) => work(&guard).await, // then drops the guard, which releases the lock
        Err(error) if error.kind() == ErrorKind::Timeout => println!("  not acquired: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// `getLock`, `lock`, `unlock`, and `lock(30, SECONDS)`.
async fn redisson(client: &Client) -> Result<()> {
    let guard = client.lock("anyLock").acquire().await?; // ttl 30 s, renewed every 10 s
    work(&guard).await;
    guard.release().await?; // dropping the guard releases it too

    let fixed = client.lock("anyLock").lease(Duration::from_secs(30)); // ends after 30 s
    fixed.acquire().await?.release().await
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
    let guard = lock.lease(Duration::from_secs(10)).acquire().await?; // ErrorKind::Timeout after 100 s
    guard.ensure(Duration::from_secs(5))?; // ErrorKind::Lost if less than 5 s are left
    work(&guard).await;
    guard.release().await
}

/// A watchdog timeout of 60 s.
async fn watchdog(client: &Client) -> Result<()> {
    let lock = client.lock("orders/555").ttl(Duration::from_secs(60)); // renewed every 20 s
    lock.run(|guard| async move { work(&guard).await }).await?; // cancelled if the lock is lost
    Ok(())
}

/// A factory of locks with `lock`, `unlock` and `isLocked`; and a call within a call.
async fn is_locked(client: &Client) -> Result<()> {
    let guard = client.lock("reports").acquire().await?;
    let inner = guard.reenter()?; // the same lease; released by the last of the two
    println!("  locked: {:?}", client.lock("reports").status().await?.state);
    inner.release().await?;
    guard.release().await?;
    println!("  unlocked: {:?}", client.lock("reports").status().await?.state);
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

/// Steps with a look between them.
async fn steps(guard: &Guard) -> Result<()> {
    step("reserve").await;
    guard.ensure(Duration::ZERO)?; // returns here if the lock is lost
    step("charge").await;
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
            tokio::spawn(async move { lock.run(|_| turn()).await })
        })
        .collect();
    let mut most = 0;
    for task in tasks {
        most = most.max(task.await.expect("the task does not panic")?);
    }
    println!("  at most {most} of 10 works at a time");
    Ok(())
}

static WORKING: AtomicUsize = AtomicUsize::new(0);

/// Works, and returns how many tasks work at this moment.
async fn turn() -> usize {
    let now = WORKING.fetch_add(1, Ordering::SeqCst) + 1;
    tokio::time::sleep(Duration::from_millis(1)).await;
    WORKING.fetch_sub(1, Ordering::SeqCst);
    now
}

async fn work(guard: &Guard) {
    println!("  holds {}, valid for {:?}", guard.name(), guard.remaining());
}

async fn step(name: &str) {
    println!("  step {name}");
}

async fn update(order: u32, token: Token) {
    println!("  UPDATE orders SET fence = {token} WHERE id = {order} AND fence <= {token}");
}
