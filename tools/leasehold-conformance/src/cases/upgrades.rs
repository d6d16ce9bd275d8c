//! Conversions of leases: two upgrades do not wait for each other, and a lost lease is not converted.

use std::time::Duration;

use leasehold_core::{Capability, ErrorKind, LeaseKind, Upgraded};

use super::{case, free, secs};
use crate::case::until_within;
use crate::{Case, Context, Outcome, ensure};

const TTL: Duration = Duration::from_secs(2);

pub(super) const CASES: &[Case] = &[
    case!(
        two_upgrades_at_once_do_not_wait_for_each_other,
        shared,
        "Two readers that upgrade at once are both answered: one at most writes, and one that is refused still reads"
    ),
    case!(
        a_lost_lease_is_not_converted,
        |c| shared(c) && c.lease == LeaseKind::Ttl,
        "A reader that has lost its lease is not upgraded, a writer is not downgraded, and their successors are not touched"
    ),
];

fn shared(capability: &Capability) -> bool {
    capability.shared
}

async fn two_upgrades_at_once_do_not_wait_for_each_other(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    for _ in 0..8 {
        let (first, second) = (one.rw_lock(&name).read().await?, two.rw_lock(&name).read().await?);
        // Either refusal may come after the release of the other reader, never its success before.
        let upgrade = |read: leasehold_core::ReadGuard| {
            tokio::spawn(async move {
                match read.try_upgrade().await? {
                    Upgraded::Write(write) => {
                        write.release().await?;
                        Ok::<bool, leasehold_core::Error>(true)
                    }
                    Upgraded::Refused(read) => {
                        let still_reads = read.is_valid();
                        read.release().await?;
                        Ok(!still_reads)
                    }
                    _ => Ok(true),
                }
            })
        };
        let both = async { tokio::try_join!(upgrade(first), upgrade(second)) };
        let (first, second) = tokio::time::timeout(secs(60), both)
            .await
            .map_err(|_| "two upgrades wait for each other")??;
        ensure!(!(first? && second?), "both wrote, or neither reads after a refusal");
    }
    free(&one, &name).await
}

async fn a_lost_lease_is_not_converted(context: Context) -> Outcome {
    let other = context.client().await;
    for reads in [true, false] {
        let (client, faults) = context.faulty_client().await;
        let name = context.name(if reads { "read" } else { "write" });
        let lock = client.rw_lock(&name).ttl(TTL);
        let (read, write) = match reads {
            true => (Some(lock.read().await?), None),
            false => (None, Some(lock.write().await?)),
        };
        faults.cut_renewals(true);
        let is_valid = || {
            read.as_ref().is_some_and(|read| read.is_valid())
                || write.as_ref().is_some_and(|write| write.is_valid())
        };
        until_within(secs(60), "the lease is lost", || async { !is_valid() }).await?;
        let next = other.rw_lock(&name).write_within(secs(60)).await?;
        let error = match (read, write) {
            (Some(read), _) => read.try_upgrade().await.err(),
            (None, Some(write)) => write.downgrade().await.err(),
            (None, None) => None,
        };
        let kind = error.as_ref().map(leasehold_core::Error::kind);
        ensure!(kind == Some(ErrorKind::Lost), "reads {reads}: {error:?}");
        ensure!(next.is_valid(), "reads {reads}: its successor was touched");
        client.settle().await;
        next.release().await?;
        free(&other, &name).await?;
    }
    Ok(())
}
