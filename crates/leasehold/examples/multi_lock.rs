//! Transfers between accounts in a ring: each holds the locks of both accounts.
//!
//! `cargo run -p leasehold --example multi_lock`. With the URL of a store that all processes reach, instead of
//! `memory:`, the transfers may run on several machines.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use leasehold::{Client, Result};
use tokio::task::JoinSet;

const ACCOUNTS: usize = 3;

/// Stands for a table of accounts.
static BALANCES: [AtomicI64; ACCOUNTS] = [const { AtomicI64::new(100) }; ACCOUNTS];

#[tokio::main]
async fn main() -> Result<()> {
    let client = leasehold::connect("memory:").await?;

    // Each account waits for the next one: with locks that are acquired in this order, they would deadlock.
    let mut transfers: JoinSet<Result<()>> = JoinSet::new();
    for from in 0..ACCOUNTS {
        let client = client.clone();
        transfers.spawn(async move {
            for _ in 0..3 {
                transfer(&client, from, (from + 1) % ACCOUNTS, 10 * (from as i64 + 1)).await?;
            }
            Ok(())
        });
    }
    while let Some(done) = transfers.join_next().await {
        done.expect("no transfer panics")?;
    }

    let balances = BALANCES.each_ref().map(|balance| balance.load(SeqCst));
    println!("balances {balances:?}, {} in all", balances.iter().sum::<i64>());
    client.close().await;
    Ok(())
}

async fn transfer(client: &Client, from: usize, to: usize, amount: i64) -> Result<()> {
    let names = [from, to].map(|account| format!("account/{account}"));
    let both = client.lock_all(&names).wait(Duration::from_secs(30));
    both.run(|guard| async move {
        let (debited, credited) =
            (BALANCES[from].load(SeqCst) - amount, BALANCES[to].load(SeqCst) + amount);
        // Another transfer would overwrite what this one writes, if it ran now.
        tokio::time::sleep(Duration::from_millis(5)).await;
        BALANCES[from].store(debited, SeqCst);
        BALANCES[to].store(credited, SeqCst);
        let tokens: Vec<String> =
            guard.tokens().map(|(name, token)| format!("{name} with token {token}")).collect();
        println!("{amount} from account {from} to {to}: {}", tokens.join(", "));
    })
    .await
}
