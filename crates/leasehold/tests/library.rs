//! The code of `docs/library.md` is compiled and runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the page shows it")]

use std::error::Error;

use leasehold::Client;
use leasehold_conformance::pages;

#[test]
fn the_code_of_the_page_is_compiled() {
    pages::are_compiled("library.md", include_str!("library.rs"));
}

mod first {
    use std::time::Duration;

    #[tokio::main]
    async fn main() -> leasehold::Result<()> {
        let client = leasehold::connect("file:/tmp/locks").await?;
        let guard = client.lock("orders/555").acquire().await?;
        println!("token {}", guard.token());
        tokio::time::sleep(Duration::from_secs(10)).await;
        guard.release().await?;
        client.close().await;
        Ok(())
    }
}

/// What the work of the page has done.
async fn import(rows: u32) -> Result<u32, Box<dyn Error>> {
    let (client, stop_after) = (leasehold::connect("memory:").await?, rows);

    let imported = client
        .lock("import")
        .run(|guard| async move {
            let mut rows = 0;
            while rows < stop_after && guard.is_valid() {
                rows += 1;
            }
            rows
        })
        .await?;

    Ok(imported)
}

async fn limits(client: Client) -> leasehold::Result<&'static str> {
    use leasehold::ErrorKind;
    use std::time::Duration;

    let lock = client.lock("orders/555").ttl(Duration::from_secs(10)).wait(Duration::from_secs(1));
    let outcome = match lock.acquire().await {
        Ok(guard) => {
            guard.release().await?;
            "released"
        }
        Err(error) if error.kind() == ErrorKind::Timeout => "held by another client",
        Err(error) if error.kind() == ErrorKind::Unavailable => "the store is down",
        Err(error) => return Err(error),
    };

    Ok(outcome)
}

async fn transfer(client: Client) -> leasehold::Result<usize> {
    let both = client.lock_all(["account/1", "account/2"]).acquire().await?;
    for (name, token) in both.tokens() {
        println!("write to {name} with token {token}");
    }
    let tokens = both.tokens().count();
    both.release().await?;

    Ok(tokens)
}

fn blocking() -> leasehold::Result<u64> {
    let client = leasehold::blocking::connect("memory:")?;
    let guard = client.lock("orders/555").acquire()?;
    let token = guard.token().get();
    guard.release()?;
    client.close()?;

    Ok(token)
}

#[tokio::test]
async fn the_work_of_the_page_runs_to_its_end() {
    assert_eq!(import(7).await.unwrap(), 7);
}

#[tokio::test]
async fn a_held_lock_is_a_timeout_and_a_free_one_is_released() {
    let client = leasehold::connect("memory:").await.unwrap();
    let guard = client.lock("orders/555").acquire().await.unwrap();
    assert_eq!(limits(client.clone()).await.unwrap(), "held by another client");
    guard.release().await.unwrap();
    assert_eq!(limits(client).await.unwrap(), "released");
}

#[tokio::test]
async fn both_accounts_have_a_token() {
    let client = leasehold::connect("memory:").await.unwrap();
    assert_eq!(transfer(client).await.unwrap(), 2);
}

#[test]
fn the_blocking_client_acquires() {
    assert!(blocking().unwrap() > 0);
}
