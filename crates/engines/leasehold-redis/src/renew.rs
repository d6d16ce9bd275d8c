//! Renews leases: one script call for each server.

use futures_util::future::{join, join_all};
use leasehold_core::Result;
use leasehold_core::backend::{Mode, Renewal, Renewed, mode_of};
use redis::Value;

use crate::backend::RedisBackend;
use crate::batcher::text;
use crate::call_limit::limit;
use crate::error::strange;
use crate::topology::Route;
use crate::{request, shared};

impl RedisBackend {
    /// Renews leases, each on the server of its lock.
    pub(crate) async fn renew_all(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        if !leases.iter().any(|lease| lease.mode == Mode::Permit) {
            return self.renew_locks(leases).await;
        }
        let is_permit = |lease: &&Renewal| lease.mode == Mode::Permit;
        let permits: Vec<&Renewal> = leases.iter().filter(is_permit).collect();
        let locks: Vec<Renewal> = leases.iter().filter(|it| !is_permit(it)).cloned().collect();
        let (permits, locks) = join(self.renew_permits(&permits), self.renew_locks(&locks)).await;
        merge(leases, is_permit, permits, locks)
    }

    async fn renew_locks(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        if leases.iter().any(|lease| mode_of(lease.attempt) == Mode::Shared) {
            return self.renew_by_mode(leases).await;
        }
        self.renew_exclusive(leases).await
    }

    /// Renews leases of writers in batches, and each lease of a reader by a call of its own.
    async fn renew_by_mode(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        let reads = |lease: &&Renewal| mode_of(lease.attempt) == Mode::Shared;
        let readers = join_all(leases.iter().filter(reads).map(|lease| self.renew_shared(lease)));
        let writers: Vec<Renewal> = leases.iter().filter(|it| !reads(it)).cloned().collect();
        let (readers, writers) = join(readers, self.renew_exclusive(&writers)).await;
        merge(leases, reads, readers, writers)
    }

    async fn renew_exclusive(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        if let Route::Cluster(_) = self.route {
            return self.renew_apart(leases).await;
        }
        match self.renew_batch(leases).await {
            Ok(answers) => answers,
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Renews leases that fit into one call.
    async fn renew_batch(&self, leases: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        leases.iter().try_for_each(|lease| request::fits("ttl", lease.ttl))?;
        let shortest = leases.iter().map(|lease| lease.ttl).min().unwrap_or_default();
        let command = request::renewals(self.route.scripts().renew.hash(), &self.keys, leases);
        let Some(first) = leases.first() else { return Ok(Vec::new()) };
        match self.route.run(&self.keys.of(&first.name), &command, limit(shortest)).await? {
            Value::BulkString(all) if all == b"R" => {
                Ok(leases.iter().map(|_| Ok(Renewed::Renewed)).collect())
            }
            Value::BulkString(answers) if answers.len() == leases.len() => {
                let renewing = answers.into_iter().zip(leases).map(|(letter, lease)| async move {
                    match letter {
                        b'R' => Ok(Renewed::Renewed),
                        b'W' => Ok(Renewed::Wanted),
                        b'L' => Ok(Renewed::Lost),
                        b'S' => self.renew_shared(lease).await,
                        other => Err(strange(other)),
                    }
                });
                Ok(join_all(renewing).await)
            }
            other => Err(strange(other)),
        }
    }

    /// Renews leases of different servers, one group after the other.
    async fn renew_apart(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        let groups = self.route.together(&self.keys, leases.iter().map(|lease| &lease.name));
        let renewing = groups.iter().map(|group| async move {
            let leases: Vec<Renewal> = group.iter().map(|&number| leases[number].clone()).collect();
            self.renew_batch(&leases).await
        });
        let mut answers: Vec<Result<Renewed>> = Vec::new();
        answers.resize_with(leases.len(), || Err(strange("no answer to a renewal")));
        for (group, renewed) in groups.iter().zip(join_all(renewing).await) {
            match renewed {
                Ok(renewed) => group.iter().zip(renewed).for_each(|(&at, one)| answers[at] = one),
                Err(error) => group.iter().for_each(|&at| answers[at] = Err(error.clone())),
            }
        }
        answers
    }

    /// Renews one lease under which, or beside which, clients may read.
    async fn renew_shared(&self, lease: &Renewal) -> Result<Renewed> {
        request::fits("ttl", lease.ttl)?;
        let command = shared::renewal(self.route.scripts(), &self.keys, lease);
        let key = self.keys.of(&lease.name);
        let answer = text(self.route.run(&key, &command, limit(lease.ttl)).await?)?;
        match answer.as_str() {
            "R" => Ok(Renewed::Renewed),
            "W" => Ok(Renewed::Wanted),
            "L" => Ok(Renewed::Lost),
            other => Err(strange(other)),
        }
    }
}

/// Puts the answers of two groups of leases into the order of all leases.
fn merge(
    leases: &[Renewal],
    is_first: impl Fn(&&Renewal) -> bool,
    first: Vec<Result<Renewed>>,
    others: Vec<Result<Renewed>>,
) -> Vec<Result<Renewed>> {
    let (mut first, mut others) = (first.into_iter(), others.into_iter());
    let answer = |lease| if is_first(&lease) { first.next() } else { others.next() };
    let answers = leases.iter().map(answer);
    answers.map(|it| it.unwrap_or_else(|| Err(strange("no answer to a renewal")))).collect()
}
