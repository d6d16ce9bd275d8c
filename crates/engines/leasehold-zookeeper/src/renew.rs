//! Renews leases by a transaction of the ensemble that checks that their nodes exist.

use leasehold_core::backend::{Renewal, Renewed};
use leasehold_core::{Deadline, Error, Result};

use crate::session::Session;
use crate::store::Store;

/// Renews a batch; returns the answers in the order of the leases.
pub(crate) async fn renew(store: &Store, leases: &[Renewal]) -> Vec<Result<Renewed>> {
    match store.session() {
        Ok(session) => renew_in(store, &session, leases).await,
        // An ended lease is lost, with or without a connection.
        Err(error) => leases
            .iter()
            .map(|lease| match store.book().lease(lease.attempt, lease.base) {
                Some(_) => Err(error.clone()),
                None => Ok(Renewed::Lost),
            })
            .collect(),
    }
}

async fn renew_in(store: &Store, session: &Session, leases: &[Renewal]) -> Vec<Result<Renewed>> {
    let mut answers: Vec<Option<Result<Renewed>>> = vec![None; leases.len()];
    let mut asked: Vec<(usize, String)> = Vec::new();
    {
        let book = store.book();
        for (at, renewal) in leases.iter().enumerate() {
            match book.lease(renewal.attempt, renewal.base) {
                // The node of an ended session may exist for a while, until the server removes it.
                Some(lease) if lease.node.session == session.number => {
                    asked.push((at, lease.node.path.clone()));
                }
                _ => answers[at] = Some(Ok(Renewed::Lost)),
            }
        }
    }
    while !asked.is_empty() {
        let sent = store.clock.now();
        let paths: Vec<&str> = asked.iter().map(|(_, path)| &**path).collect();
        match session.check(&paths).await {
            Ok(None) => {
                for (at, _) in asked.drain(..) {
                    let Renewal { attempt, ttl, .. } = leases[at];
                    let until = session.valid_until(sent, ttl);
                    let ends = Deadline::after(sent, ttl.min(session.term()));
                    let renewed = store.book().renew(attempt, until, ends);
                    let answer = if renewed { Renewed::Renewed } else { Renewed::Lost };
                    answers[at] = Some(Ok(answer));
                }
            }
            Ok(Some(gone)) => {
                // Check the others again without it.
                let (at, _) = asked.remove(gone.min(asked.len() - 1));
                store.book().lose(sent, leases[at].attempt);
                answers[at] = Some(Ok(Renewed::Lost));
            }
            Err(error) => {
                for (at, _) in asked.drain(..) {
                    answers[at] = Some(Err(store.failed(&leases[at].name, error.clone())));
                }
            }
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unanswered()))).collect()
}

fn unanswered() -> Error {
    crate::error::no_connection(None)
}
