//! The code of the pages on locks, fencing, routing and articles is compiled.

#![allow(dead_code, reason = "the pages show it")]

use std::error::Error;

use leasehold::{Client, Guard};
use leasehold_conformance::pages;
use sqlx::PgPool;

#[test]
fn the_code_of_the_pages_is_compiled() {
    const SOURCE: &str = include_str!("pages.rs");
    pages::are_compiled("choosing.md", SOURCE);
    pages::are_compiled("fencing.md", SOURCE);
    let with_election = concat!(include_str!("pages.rs"), include_str!("../examples/election.rs"));
    pages::are_compiled("primitives.md", with_election);
    pages::are_compiled("quorum.md", SOURCE);
    pages::are_compiled("redis.md", SOURCE);
    pages::are_compiled("routing.md", SOURCE);
}

#[test]
fn the_code_of_the_page_on_articles_is_compiled() {
    let source = concat!(
        include_str!("../examples/articles.rs"),
        include_str!("../../leasehold-cache/examples/cache_articles.rs"),
        include_str!("pages.rs"),
        include_str!("stock.rs"),
    );
    pages::are_compiled("articles.md", source);
}

async fn choosing_page(client: Client) -> Result<(), Box<dyn Error>> {
    use std::time::Duration;

    let lock = client
        .lock("orders/555")
        .wait(Duration::from_secs(1)) // 99 % of the holds take less than 800 ms
        .ttl(Duration::from_secs(10)); // 99.9 % take less than 5 s
    let guard = lock.acquire().await?;

    drop(guard);
    Ok(())
}

async fn primitives_page(client: Client) -> Result<(), Box<dyn Error>> {
    use std::time::Duration;

    let both = client.lock_all(["account/2", "account/1"]).wait(Duration::from_secs(5));
    both.run(|guard| async move {
        for (name, token) in guard.tokens() {
            println!("write to {name} with token {token}");
        }
    })
    .await?;

    let lock = client.rw_lock("reports");
    let read = lock.read().await?; // many clients at once
    read.release().await?;
    let write = lock.write().await?; // alone
    let read = write.downgrade().await?; // in one step: no writer gets in between

    let gpus = client.semaphore("gpu", 4);
    let permit = gpus.acquire().await?; // acquire_many(n): several slots, one token
    println!("slot {} with token {}", permit.slot(), permit.token());
    gpus.set_limit(6).await?; // lets waiters in at once

    let imported = client.latch("imported", 3); // three parties
    let missing = imported.count_down("orders").await?; // by each party, when it is done
    imported.wait().await?; // by everyone who needs all of them
    let generation = imported.reset().await?; // all parties are missing again

    println!("{missing} {generation}");
    drop((read, permit));
    Ok(())
}

async fn fenced_row(pool: PgPool, guard: Guard) -> Result<(), Box<dyn Error>> {
    use leasehold::fence::sql::RowFence;

    let fence = RowFence::new("orders", "id", "fence")?;

    let mut tx = pool.begin().await?;
    fence.check(&mut tx, 555, guard.token()).await?.into_result()?;
    sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 555").execute(&mut *tx).await?;
    tx.commit().await?;

    guard.announce(&fence, (&pool, 555)).await?;
    Ok(())
}

async fn fenced_value(
    mut connection: redis::aio::MultiplexedConnection,
    guard: Guard,
) -> Result<(), Box<dyn Error>> {
    use leasehold::fence::redis::RedisFence;

    let fence = RedisFence::new();
    fence.set_if_newer(&mut connection, "order:555", "paid", guard.token()).await?.into_result()?;
    Ok(())
}

fn fenced_service<S>(mut request: http::Request<String>, guard: Guard, service: S) {
    use leasehold::fence::http::{FenceLayer, put_token};
    use tower::Layer;

    put_token(request.headers_mut(), guard.token());
    let service = FenceLayer::new().layer(service);

    drop((request, service));
}

async fn redis_page(order: Order) -> Result<(), Box<dyn Error>> {
    use std::time::Duration;

    let client = leasehold::connect("redis://:s3cret@127.0.0.1:7000").await?;
    let lock = client.lock("orders/555").ttl(Duration::from_secs(30));

    let guard = lock.acquire_within(Duration::from_secs(5)).await?;
    save_if_newer(order, guard.token().get()).await?;
    guard.release().await?;
    Ok(())
}

async fn quorum_page(order: Order) -> Result<(), Box<dyn Error>> {
    use std::time::Duration;

    let url = "redlock://:s3cret@127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003?max-ttl=60s";
    let client = leasehold::connect(url).await?;
    let lock = client.lock("orders/555").ttl(Duration::from_secs(30));

    let guard = lock.acquire_within(Duration::from_secs(5)).await?;
    save_if_newer(order, guard.token().get()).await?;
    guard.release().await?;
    Ok(())
}

async fn routing_page() -> Result<(), Box<dyn Error>> {
    use leasehold::route::{Members, Routed, Router};
    use std::time::Duration;

    let client = leasehold::connect("redis://:s3cret@127.0.0.1:6379").await?;
    let members = Members::new(["app-1", "app-2", "app-3"])?;
    let router = Router::new("app-2", members.clone())?;

    match router.acquire(&client.lock("orders/555").wait(Duration::from_secs(5))).await? {
        Routed::Mine(guard) => work(&guard).await,
        Routed::NotMine { owner } => forward(&owner).await,
        other => return Err(format!("unknown result: {other:?}").into()),
    }

    router.update(members.without("app-3")?);
    Ok(())
}

struct Order;

async fn save_if_newer(_order: Order, _token: u64) -> Result<(), Box<dyn Error>> {
    Ok(())
}

async fn work(_guard: &Guard) {}

async fn forward(_owner: &str) {}
