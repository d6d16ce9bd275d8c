//! One round of an attempt: asks all servers for the lock, and gives it back where a majority refuses.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Result;
use leasehold_core::backend::{AcquireRequest, Answer, ReleaseRequest};
use tokio::sync::{mpsc, watch};

use super::attempts::Held;
use super::votes::{self, Decision};
use super::{WireBackend, WireQuorum, gather, granted, valid, value};

/// What a server's task says.
enum Said {
    Answered(usize, Result<Answer>),
    /// It has nothing more to do.
    Done(usize),
}

impl WireQuorum {
    /// Asks all servers.
    pub(super) async fn round(&self, request: &AcquireRequest) -> Result<Answer> {
        let me = format!("{}:{:08x}", value(request.attempt), self.attempts.next_round());
        // By all clocks about the same, so that all servers give the same token at once.
        let sent = self.clock.now();
        let (proposed, until) = (sent.wall_ns / 1000, valid(sent, request.ttl));
        let limit = self.limit(request.ttl);
        let (keep, kept) = watch::channel(None);
        let (said, mut heard) = mpsc::unbounded_channel();
        for (at, server) in self.servers.all.iter().enumerate() {
            let (server, request, me) = (server.clone(), request.clone(), me.clone());
            let (said, kept) = (said.clone(), kept.clone());
            tokio::spawn(async move {
                let answer = server.acquire_as(&request, &me, Some(proposed)).await;
                let may_have = may_have(&answer);
                said.send(Said::Answered(at, answer)).ok();
                if may_have {
                    give_back(&server, &request, &me, kept).await;
                }
                said.send(Said::Done(at)).ok();
            });
        }
        drop(said);
        let mut answers: Vec<Option<Result<Answer>>> =
            self.servers.all.iter().map(|_| None).collect();
        {
            let mut time_is_up = std::pin::pin!(self.clock.sleep(limit));
            while votes::is_open(&answers, self.servers.majority()) {
                tokio::select! {
                    biased;
                    said = heard.recv() => match said {
                        Some(Said::Answered(at, answer)) => answers[at] = Some(answer),
                        Some(Said::Done(_)) => {}
                        None => break,
                    },
                    () = &mut time_is_up => break,
                }
            }
        }
        for (at, answer) in answers.iter().enumerate() {
            if answer
                .as_ref()
                .is_none_or(|answer| answer.as_ref().is_err_and(|e| !e.kind().is_certain()))
            {
                self.attempts.suspect(request.attempt, at);
            }
        }
        let decision = self.servers.decide(&answers, self.longest());
        if let Decision::Granted(token) = decision
            && self.commit(request, &me, token, &answers, limit).await
        {
            keep.send_replace(Some(true));
            let origin = request.origin.clone();
            self.attempts.hold(request.attempt, Held { me, token, until, origin });
            return Ok(granted(token));
        }
        keep.send_replace(Some(false));
        self.wait_for_what_is_given_back(&answers, &mut heard, limit).await;
        match decision {
            Decision::Denied(answer) => answer,
            // Another majority has the lock by now, or too few servers answer: the next round tells.
            Decision::Granted(_) => Ok(Answer::Busy { ask_again: Some(votes::soon()) }),
        }
    }

    /// Has a majority know the token, so that each later one is larger. Mostly each has given the proposed one.
    async fn commit(
        &self,
        request: &AcquireRequest,
        me: &str,
        token: leasehold_core::Token,
        answers: &[Option<Result<Answer>>],
        limit: Duration,
    ) -> bool {
        let most = self.servers.majority();
        let has = |at: usize| votes::token_of(&answers[at]) == Some(token);
        let known = (0..answers.len()).filter(|at| has(*at)).count();
        if known >= most {
            return true;
        }
        let others =
            (0..answers.len()).filter(|at| !has(*at) && votes::token_of(&answers[*at]).is_some());
        let calls: Vec<_> = others
            .map(|at| {
                let (server, request, me) =
                    (self.servers.all[at].clone(), request.clone(), me.to_owned());
                async move { server.commit_as(&request, &me, token).await }
            })
            .collect();
        let answers = gather(calls, &self.clock, limit, |answers| {
            known + votes::yes_and_no(answers).0 >= most
        })
        .await;
        known + votes::yes_and_no(&answers).0 >= most
    }

    /// A request that was refused leaves nothing behind, at servers that answer.
    async fn wait_for_what_is_given_back(
        &self,
        answers: &[Option<Result<Answer>>],
        heard: &mut mpsc::UnboundedReceiver<Said>,
        limit: Duration,
    ) {
        let mut left: Vec<bool> =
            answers.iter().map(|answer| votes::token_of(answer).is_some()).collect();
        let mut time_is_up = std::pin::pin!(self.clock.sleep(limit));
        while left.contains(&true) {
            tokio::select! {
                biased;
                said = heard.recv() => match said {
                    Some(Said::Done(at)) => left[at] = false,
                    Some(Said::Answered(..)) => {}
                    None => return,
                },
                () = &mut time_is_up => return,
            }
        }
    }

    /// Returns after what time a waiter asks again, whatever the servers report.
    fn longest(&self) -> Duration {
        let each = self.servers.all.iter().map(|server| server.longest());
        each.min().unwrap_or_default()
    }
}

/// Returns whether a server may have given the lock.
fn may_have(answer: &Result<Answer>) -> bool {
    match answer {
        Ok(answer) => matches!(answer, Answer::Granted(_)),
        Err(error) => !error.kind().is_certain(),
    }
}

/// Gives the lock back unless the round keeps it. A round that is dropped keeps nothing.
async fn give_back(
    server: &Arc<WireBackend>,
    request: &AcquireRequest,
    me: &str,
    mut kept: watch::Receiver<Option<bool>>,
) {
    let keeps = kept.wait_for(Option::is_some).await.is_ok_and(|keeps| *keeps == Some(true));
    if keeps {
        return;
    }
    let release = ReleaseRequest::new(request.name.clone(), request.attempt);
    if let Err(error) = server.release_as(&release, me).await {
        tracing::debug!(name = %request.name, %error, "cannot give a lock back; it ends with its ttl there");
    }
}
