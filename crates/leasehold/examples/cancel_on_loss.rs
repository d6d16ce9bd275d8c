//! Work that is stopped when its lock is lost.
//!
//! `cargo run -p leasehold --example cancel_on_loss`. An operator ends the lease by force, and
//! the work is stopped.

use std::time::Duration;

use leasehold::ErrorKind;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let client = leasehold::connect("memory:").await?;
    let lock = client.lock("import").ttl(Duration::from_secs(3));

    let operator = lock.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        if let Ok(Some(token)) = operator.status().await.map(|status| status.token) {
            println!("operator: ending the lease of token {token}");
            operator.force_release(token).await.ok();
        }
    });

    let outcome = lock
        .run(|guard| async move {
            // For threads and libraries: a token that is cancelled at the same moment.
            let stop = guard.cancellation_token();
            for row in 1.. {
                if stop.is_cancelled() {
                    break;
                }
                println!("row {row}, valid for {:?}", guard.remaining());
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        })
        .await;
    match outcome {
        Err(error) if error.kind() == ErrorKind::Lost => println!("stopped: {error}"),
        other => println!("not expected: {other:?}"),
    }
    client.close().await;
    Ok(())
}
