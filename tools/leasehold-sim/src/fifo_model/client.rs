//! A client: what it does next, and what it has seen.

use leasehold_proto::Token;
use leasehold_proto::fifo::{PhaseRecord, Turn, TurnToken, converted};

use super::{Action, Bug, Entry, State, Store, Transaction};

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To write, and then to read without a gap.
    Downgrade,
    /// To read, and then to write if it is the only one.
    Upgrade,
    /// To write, as a client does that knows no readers and no record.
    OldWrite,
}

/// How far a client has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It has not begun.
    Start,
    /// It reads the queue next. `new`: it has just created its entry.
    Looks {
        /// It has just created its entry.
        new: bool,
    },
    /// It waits until this entry has gone or is another.
    Waits(Entry),
    /// Its turn has come, and it reads the record next: planted.
    Turn(Turn<u8>),
    /// It decides by what it has read of the queue and the record, as of one moment.
    Decides(Turn<u8>, Option<PhaseRecord<u8>>, u8),
    /// It has sent a request.
    Sent(Transaction),
    /// It holds.
    Holds,
    /// It has read the record for a conversion.
    Converts(Option<PhaseRecord<u8>>, u8),
    /// An earlier request of its upgrade may still arrive.
    Seals,
    /// It has ended.
    Ended,
}

/// A client and its entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// What it wants.
    pub program: Program,
    /// How far it has got.
    pub step: Step,
    /// Its entry.
    pub entry: Option<Entry>,
    /// The token of its guard, and whether that reads.
    pub holds: Option<(u64, bool)>,
    /// What it saw when it created its entry.
    early: Option<(Turn<u8>, Option<PhaseRecord<u8>>, u8)>,
    /// It has been converted, or refused.
    converted: bool,
    /// It does not use its guard until its downgrade is answered.
    pub(super) idle: bool,
    /// It has crashed.
    pub crashed: bool,
}

impl Client {
    pub(super) fn new(program: Program) -> Self {
        let (step, entry, holds, early) = (Step::Start, None, None, None);
        Self { program, step, entry, holds, early, converted: false, idle: false, crashed: false }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.step == Step::Ended
    }

    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.step, Step::Start | Step::Ended)
    }

    pub(super) fn acts(&self, store: &Store) -> bool {
        match self.step {
            Step::Ended => false,
            Step::Waits(before) => !store.has(before),
            _ => true,
        }
    }

    /// Returns true for a writer that was told that the entry before its own has gone.
    pub(super) fn may_look_at_member(&self) -> bool {
        self.step == Step::Looks { new: false } && self.entry.is_some_and(|own| !own.reads)
    }

    fn reads_first(&self) -> bool {
        matches!(self.program, Program::Read | Program::Upgrade)
    }
}

/// Reads the queue for an entry: its turn, or the entry that it waits for.
fn look(bug: Option<Bug>, store: &Store, own: Entry) -> Result<Turn<u8>, Entry> {
    let before: Vec<&Entry> =
        store.entries.iter().filter(|entry| entry.place < own.place).collect();
    let blocks = match own.reads {
        true if bug == Some(Bug::ReaderLooksOneBack) => before.last().filter(|last| !last.reads),
        true => before.iter().rev().find(|entry| !entry.reads),
        false => before.last(),
    };
    if let Some(entry) = blocks {
        return Err(**entry);
    }
    let first = store.entries.first().map_or(own.place, |first| first.place);
    let run = store.entries.iter().take_while(|entry| entry.reads).last();
    let run = run.map_or(own.place, |last| last.place);
    let run = own.reads.then_some(run.max(own.place));
    let created = Token::new(own.created).unwrap_or(Token::MAX);
    Ok(Turn { place: own.place, created, first, run })
}

impl State {
    pub(super) fn apply(&mut self, bug: Option<Bug>, action: Action) {
        match action {
            Action::Step(number) => self.step(bug, usize::from(number)),
            Action::LoseAnswer(number) => {
                self.faults -= 1;
                let client = &mut self.clients[usize::from(number)];
                if let Step::Sent(transaction) = client.step {
                    self.store.execute(bug, transaction);
                    client.step = Step::Seals;
                }
            }
            Action::LoseRequest(number) => {
                self.faults -= 1;
                let client = &mut self.clients[usize::from(number)];
                if let Step::Sent(transaction) = client.step {
                    self.late.push(transaction);
                    client.step = Step::Seals;
                }
            }
            Action::GiveUp(number) => {
                self.faults -= 1;
                self.end(usize::from(number));
            }
            Action::Crash(number) => {
                self.faults -= 1;
                let client = &mut self.clients[usize::from(number)];
                if let Step::Sent(transaction) = client.step {
                    self.late.push(transaction);
                }
                (client.crashed, client.step) = (true, Step::Ended);
            }
            Action::Expire(number) => self.end(usize::from(number)),
            Action::Arrive(place) => {
                let transaction = self.late.remove(usize::from(place));
                self.store.execute(bug, transaction);
            }
            Action::Remove => {
                self.removals -= 1;
                self.store.remove();
            }
            Action::LookAtMember(number) => self.look_at_member(bug, usize::from(number)),
            Action::CatchUp => self.member = self.store.clone(),
        }
    }

    /// The client's entry is removed, and its guard is over.
    fn end(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.holds = None;
        client.step = Step::Ended;
        client.entry = None;
        // A conversion may have been executed without the client's knowledge.
        let own = self.store.entries.iter().find(|entry| usize::from(entry.client) == number);
        if let Some(entry) = own.copied() {
            self.store.delete(entry);
        }
    }

    /// The entry of a client as the store has it now.
    fn own(&self, number: usize) -> Option<Entry> {
        let mut entries = self.store.entries.iter();
        entries.find(|entry| usize::from(entry.client) == number).copied()
    }

    fn step(&mut self, bug: Option<Bug>, number: usize) {
        let client = &self.clients[number];
        let (step, program) = (client.step, client.program);
        let next = match step {
            Step::Start => {
                let entry = self.store.create(number as u8, client.reads_first());
                let (record, version) = (self.store.record, self.store.version);
                let first = self.store.entries.first().map_or(entry.place, |first| first.place);
                let client = &mut self.clients[number];
                client.entry = Some(entry);
                if bug == Some(Bug::ReadsRecordEarly) {
                    let created = Token::new(entry.created).unwrap_or(Token::MAX);
                    let turn = Turn { place: entry.place, created, first, run: Some(entry.place) };
                    client.early = Some((turn, record, version));
                }
                Step::Looks { new: true }
            }
            Step::Looks { new } => self.looks(bug, number, new),
            Step::Waits(_) => Step::Looks { new: false },
            Step::Turn(turn) => Step::Decides(turn, self.store.record, self.store.version),
            Step::Decides(turn, record, version) => {
                self.decides(bug, number, turn, record, version)
            }
            Step::Sent(transaction) => {
                let done = self.store.execute(bug, transaction);
                match (done, transaction.new) {
                    (true, None) => {
                        let token = transaction.record.token.get();
                        self.grant(number, token, transaction.own.reads);
                        Step::Holds
                    }
                    (true, Some(reads)) => {
                        self.is_converted(number, transaction.record.token, reads)
                    }
                    (false, None) => Step::Looks { new: false },
                    (false, Some(_)) => self.keeps_on(number),
                }
            }
            Step::Holds => match program {
                Program::Downgrade | Program::Upgrade if !self.clients[number].converted => {
                    Step::Converts(self.store.record, self.store.version)
                }
                _ => {
                    self.end(number);
                    Step::Ended
                }
            },
            Step::Converts(record, version) => self.converts(bug, number, record, version),
            Step::Seals => self.seals(bug, number),
            Step::Ended => Step::Ended,
        };
        self.clients[number].step = next;
    }

    fn looks(&mut self, bug: Option<Bug>, number: usize, new: bool) -> Step {
        let client = &self.clients[number];
        // The entry was removed by a person, or with its session: not in this model.
        let Some(own) = client.entry else { return Step::Ended };
        match look(bug, &self.store, own) {
            Err(before) => Step::Waits(before),
            Ok(_) if own.reads && client.early.is_some() => {
                let (turn, record, version) = client.early.unwrap_or_else(|| unreachable!());
                self.clients[number].early = None;
                Step::Decides(turn, record, version)
            }
            Ok(turn) => {
                let ignores = client.program == Program::OldWrite
                    || bug == Some(Bug::WriterIgnoresRecord)
                    || (new && bug == Some(Bug::FirstWriterIgnoresRecord));
                if ignores && !own.reads {
                    self.grant(number, own.created, false);
                    return Step::Holds;
                }
                match bug {
                    Some(Bug::ReadsRecordLater) => Step::Turn(turn),
                    _ => Step::Decides(turn, self.store.record, self.store.version),
                }
            }
        }
    }

    /// What the member shows counts if the own entry is there and none is before it: no entry comes before it later.
    /// Otherwise the client reads the store.
    fn look_at_member(&mut self, bug: Option<Bug>, number: usize) {
        let Some(own) = self.clients[number].entry else { return };
        let is_there = self.member.has(own) || bug == Some(Bug::BelievesMemberWithoutOwnEntry);
        if let Ok(turn) = look(bug, &self.member, own)
            && is_there
        {
            let (record, version) = (self.member.record, self.member.version);
            self.clients[number].step = Step::Decides(turn, record, version);
        }
    }

    fn decides(
        &mut self,
        bug: Option<Bug>,
        number: usize,
        turn: Turn<u8>,
        record: Option<PhaseRecord<u8>>,
        version: u8,
    ) -> Step {
        let Some(own) = self.clients[number].entry else { return Step::Ended };
        let mut turn = turn;
        if bug == Some(Bug::JoinsEndedPhase) && own.reads {
            turn.first = 0;
        }
        let Some(decided) = turn.token(record) else { return Step::Ended };
        let token = match decided {
            TurnToken::Has(token) => token,
            TurnToken::Register(new) => {
                let joins = own.reads && record.is_some_and(|old| old.token == new.token);
                let skips = (bug == Some(Bug::JoinsUnregistered) && joins)
                    || (bug == Some(Bug::WriterDoesNotRegister) && !own.reads);
                if !skips {
                    return Step::Sent(Transaction { own, new: None, record: new, version });
                }
                new.token
            }
        };
        self.grant(number, token.get(), own.reads);
        Step::Holds
    }

    fn converts(
        &mut self,
        bug: Option<Bug>,
        number: usize,
        record: Option<PhaseRecord<u8>>,
        version: u8,
    ) -> Step {
        let client = &self.clients[number];
        let (Some(own), Some((held, reads))) = (client.entry, client.holds) else {
            return Step::Ended;
        };
        // The queue is read after the record.
        if reads && self.store.entries.len() > 1 {
            self.clients[number].converted = true;
            return Step::Holds;
        }
        // A writer writes no more from now on, a reader reads on.
        self.clients[number].idle = !reads;
        let held = Token::new(held).unwrap_or(Token::MAX);
        let Some(mut new) = converted(record, held, own.place) else { return Step::Ended };
        if bug == Some(Bug::ConversionKeepsToken) {
            new.token = held;
        }
        Step::Sent(Transaction { own, new: Some(!reads), record: new, version })
    }

    fn is_converted(&mut self, number: usize, token: Token, reads: bool) -> Step {
        let entry = self.own(number);
        let client = &mut self.clients[number];
        (client.entry, client.converted, client.holds) = (entry, true, None);
        client.idle = false;
        self.grant(number, token.get(), reads);
        Step::Holds
    }

    /// Its conversion was not executed: a downgrade is asked for again, an upgrade may be refused.
    fn keeps_on(&self, number: usize) -> Step {
        match self.clients[number].idle {
            true => Step::Converts(self.store.record, self.store.version),
            false => Step::Holds,
        }
    }

    /// The last request was not answered: was it executed, and may it still be?
    fn seals(&mut self, bug: Option<Bug>, number: usize) -> Step {
        let (Some(now), Some(entry)) = (self.own(number), self.clients[number].entry) else {
            return Step::Ended;
        };
        if self.clients[number].holds.is_none() {
            // A registration is simply made again.
            return Step::Looks { new: false };
        }
        let Some(record) = self.store.record.filter(|_| now != entry) else {
            // A copy that arrives later finds another version of the record.
            if let (Some(record), true) =
                (self.store.record, entry.reads && bug != Some(Bug::UpgradeIsNotSealed))
            {
                let version = self.store.version;
                self.store.execute(None, Transaction { own: entry, new: None, record, version });
            }
            return self.keeps_on(number);
        };
        self.is_converted(number, record.token, now.reads)
    }
}
