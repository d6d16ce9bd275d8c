//! Five tasks bring the same payment request: one does the work, and the others get its result.
//!
//! `cargo run -p leasehold-once --example run_once`. It starts a Redis server of its own, unless an argument names one
//! (`-- redis://host:6379`). `docs/once.md` shows what it prints.

use std::io::Write;

use leasehold_once::{Begun, BoxError, RunOnce};
use leasehold_test_servers::{RedisServer, RedisSettings};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut own = None;
    let redis = match std::env::args().nth(1) {
        Some(url) => url,
        None => own.insert(RedisServer::start(RedisSettings::new())?).url(),
    };
    play(&redis, &mut std::io::stdout()).await
}

pub(crate) async fn play(redis: &str, out: &mut impl Write) -> Result<(), BoxError> {
    let payments = RunOnce::builder("payments").open(redis)?;

    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let payments = payments.clone();
        tasks.spawn(async move { payments.begin::<String>("order 555", b"12.50 EUR").await });
    }
    let (mut won, mut busy) = (None, 0);
    for begun in tasks.join_all().await {
        match begun? {
            Begun::Won(run) if won.is_none() => won = Some(run),
            Begun::Busy(_) => busy += 1,
            other => return Err(format!("not expected: {other:?}").into()),
        }
    }
    let mut run = won.ok_or("not one task has won")?;
    writeln!(out, "order 555   begin by 5 tasks   Won 1, Busy {busy}")?;
    run.complete("receipt 1").await?; // The payment is made before this line.
    writeln!(out, "order 555   complete, begin    {}", begin(&payments, "order 555").await?)?;
    if let Err(error) = payments.begin::<String>("order 555", b"99.00 EUR").await {
        writeln!(out, "order 555   other payload      {:?}", error.kind())?;
    }

    let mut run = take(&payments, "order 556").await?;
    run.abandon().await?;
    writeln!(out, "order 556   abandon, begin     {}", begin(&payments, "order 556").await?)?;
    let mut run = take(&payments, "order 557").await?;
    run.leave().await?;
    writeln!(out, "order 557   leave, begin       {}", begin(&payments, "order 557").await?)?;
    let mut run = take(&payments, "order 558").await?;
    run.fail("card refused").await?;
    writeln!(out, "order 558   fail, begin        {}", begin(&payments, "order 558").await?)?;
    drop(take(&payments, "order 559").await?);
    writeln!(out, "order 559   drop, begin        {}", begin(&payments, "order 559").await?)?;
    Ok(())
}

async fn begin(payments: &RunOnce, id: &str) -> Result<String, BoxError> {
    Ok(match payments.begin::<String>(id, b"12.50 EUR").await? {
        Begun::Won(run) => format!("Won, tries {}", run.tries()),
        Begun::Busy(_) => "Busy".to_owned(),
        ended => format!("{ended:?}"),
    })
}

async fn take(payments: &RunOnce, id: &str) -> Result<leasehold_once::Run, BoxError> {
    match payments.begin::<String>(id, b"12.50 EUR").await? {
        Begun::Won(run) => Ok(run),
        other => Err(format!("not expected: {other:?}").into()),
    }
}
