//! A candidate: campaigns again and again, writes down when it leads, and what it observes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Client, Deadline, Election, Leadership, LossReason, Term};

use crate::client::{Files, LULL, NAME, connect, note};
use crate::failure::FailureKind;
use crate::gate::Gates;
use crate::journal::{HoldEnd, Journal, JournalEntry};
use crate::part::Part;
use crate::{Result, TTL, now};

/// A leader looks so often whether it still leads, and a candidate whether it may campaign.
const LOOK: Duration = Duration::from_millis(5);
/// Where no change is pushed, observers ask so often.
pub(super) const OBSERVE: Duration = Duration::from_millis(100);

/// The arguments of a candidate.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CandidateArgs {
    /// The store
    pub(super) url: String,
    /// Number of this process, from 1
    pub(super) number: u32,
    /// Where journals and resources are
    pub(super) folder: PathBuf,
}

impl CandidateArgs {
    /// The words that tell it.
    pub(super) fn words(&self) -> [OsString; 4] {
        let folder = self.folder.clone().into_os_string();
        ["candidate".into(), self.url.clone().into(), self.number.to_string().into(), folder]
    }
}

/// Plays the part until the process is killed.
pub(crate) fn play(args: &CandidateArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let files = Files::in_folder(&args.folder);
        let journal = Arc::new(Journal::open(&files.journal(args.number))?);
        let client = connect(&args.url, &journal).await?;
        let election = election(&client).candidate(args.number.to_string());
        let observer = tokio::spawn(observe(election.clone(), journal.clone()));
        let candidate = Candidate { args, files, journal, election };
        candidate.campaign().await?;
        observer.abort();
        Ok(())
    })
}

fn election(client: &Client) -> Election {
    client.election(NAME).ttl(TTL).observe_every(OBSERVE)
}

/// Writes down each leader, and that there is none.
async fn observe(election: Election, journal: Arc<Journal>) {
    loop {
        match election.observe().await {
            Ok(mut leaders) => {
                while let Some(leader) = leaders.next().await {
                    let token = leader.map_or(0, |leader| leader.token.get());
                    journal.write(&JournalEntry::Observed { at: now(), token });
                }
            }
            Err(error) => note(&journal, FailureKind::of_attempt(error.kind()), &error),
        }
        tokio::time::sleep(LOOK).await;
    }
}

struct Candidate<'a> {
    args: &'a CandidateArgs,
    files: Files,
    journal: Arc<Journal>,
    election: Election,
}

impl Candidate<'_> {
    async fn campaign(&self) -> Result<()> {
        let mut hold = 0;
        while !self.files.ending().exists() {
            if self.is_lull() {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let asked = now();
            let elected = tokio::select! {
                elected = self.election.campaign() => elected,
                () = self.until_lull() => continue,
            };
            match elected {
                Ok(term) => {
                    self.lead(hold, asked, term).await?;
                    hold += 1;
                }
                Err(error) => {
                    note(&self.journal, FailureKind::of_attempt(error.kind()), &error);
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        Ok(())
    }

    async fn lead(&self, hold: u64, asked: u64, term: Term) -> Result<()> {
        let leader = term.leadership().clone();
        let (got, token) = (now(), leader.token().get());
        let (deadline, attempt) = (deadline(&leader), hold.to_string());
        let part = Part::Whole;
        self.journal.write(&JournalEntry::Held {
            hold,
            asked,
            got,
            token,
            deadline,
            attempt,
            part,
        });
        let entered = Gates::in_folder(&self.args.folder).enter(part)?;
        if entered.met {
            self.journal.write(&JournalEntry::Met { hold, at: now() });
        }
        self.files.open(true)?.read(self.args.number, token)?;
        let lost = self.until_lost(hold, &term).await;
        let at = now();
        let end = match lost {
            None => HoldEnd::Valid,
            Some(LossReason::Expired) => HoldEnd::Expired,
            Some(_) => HoldEnd::Told,
        };
        let deadline = self::deadline(&leader);
        self.journal.write(&JournalEntry::Ended { hold, at, end, deadline });
        drop(entered);
        self.journal.write(&JournalEntry::Left { hold, at: now() });
        // What is not resigned ends by its ttl, and the client repeats it.
        term.resign().await.ok();
        Ok(())
    }

    /// Leads until it is asked to resign, or the lease is lost.
    async fn until_lost(&self, hold: u64, term: &Term) -> Option<LossReason> {
        let mut lost = pin!(term.lost());
        loop {
            tokio::select! {
                biased;
                reason = &mut lost => return Some(reason),
                () = tokio::time::sleep(LOOK) => {}
            }
            let at = now();
            if term.leadership().is_leader() {
                let deadline = deadline(term.leadership());
                self.journal.write(&JournalEntry::Valid { hold, at, deadline });
            }
            if self.is_lull() || self.files.ending().exists() {
                return None;
            }
        }
    }

    fn is_lull(&self) -> bool {
        self.args.folder.join(LULL).exists()
    }

    async fn until_lull(&self) {
        while !self.is_lull() && !self.files.ending().exists() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn deadline(leader: &Leadership) -> u64 {
    leader.deadline().map_or(u64::MAX, Deadline::steady_ns)
}
