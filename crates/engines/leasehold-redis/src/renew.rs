//! Renews leases: one script call for each server.

use futures_util::future::join_all;
use leasehold_core::Result;
use leasehold_core::backend::{Renewal, Renewed};
use redis::Value;

use crate::backend::{RedisBackend, limit};
use crate::error::strange;
use crate::request;
use crate::topology::Route;

impl RedisBackend {
    /// Renews leases, each on the server of its lock.
    pub(crate) async fn renew_all(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
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
                let verdict = |letter| match letter {
                    b'R' => Ok(Renewed::Renewed),
                    b'L' => Ok(Renewed::Lost),
                    other => Err(strange(other)),
                };
                Ok(answers.into_iter().map(verdict).collect())
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
}
