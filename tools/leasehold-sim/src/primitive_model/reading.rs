//! What a client does with its read leases and conversions.

use leasehold_proto::client::{AfterConversion, Conversion, Granted, SharedRead};
use leasehold_proto::read_write::{Converted, Mode};
use leasehold_proto::{Now, TokenBlock};

use super::client::{World, now};
use super::{Call, Client, Converting, Holding, Phase, Use, Want};

impl Client {
    /// A task begins. A reader joins a read lease of the client, or takes a cached one, without a
    /// request, if it may.
    pub(super) fn begin(&mut self, world: &mut World<'_>, task: Use) {
        self.begun += 1;
        let writes = self.has_waiting_writer();
        let now = world.now();
        if task == Use::Hold(Want::Read) {
            for phase in &mut self.phases {
                let joined = match phase {
                    Phase::Holding(Holding { shared: Some(shared), lease, .. }) => {
                        shared.join(lease, now, writes)
                    }
                    Phase::Converting(one) => {
                        let Holding { shared, lease, .. } = &mut *one.from;
                        shared.as_mut().and_then(|shared| shared.join(lease, now, writes))
                    }
                    _ => None,
                };
                if joined.is_some() {
                    return;
                }
            }
        }
        if !self.take_cached(world, task) {
            self.start(world, task);
        }
    }

    /// Begins to convert a lease. Returns without effect if the client refuses it.
    pub(super) fn convert(&mut self, world: &mut World<'_>, found: usize) {
        let next = self.new_attempt();
        let Phase::Holding(holding) = &mut self.phases[found] else { return };
        let conversion = match &mut holding.shared {
            Some(shared) => shared.try_upgrade(next, &holding.lease, world.now()),
            None => Some(Conversion::downgrade(holding.end(world.rules), next, world.rules)),
        };
        holding.task = Use::Hold(holding.want);
        let Some(conversion) = conversion else { return };
        // A renewal on its way does not count any more.
        holding.renewing = None;
        let from = Box::new(holding.clone());
        world.no_answer(self.id, from.attempt);
        self.phases[found] = Phase::Converting(Converting { conversion, from, sent: 0 });
        self.ask_conversion(world, found);
    }

    pub(super) fn ask_conversion(&mut self, world: &mut World<'_>, found: usize) {
        let Phase::Converting(one) = &mut self.phases[found] else { return };
        let call = Call::Convert(one.conversion.request());
        one.conversion.handle_sent();
        one.sent = world.clock;
        self.send(world, call);
    }

    pub(super) fn handle_converted(
        &mut self,
        world: &mut World<'_>,
        found: usize,
        sent: u8,
        converted: Converted,
    ) {
        let Phase::Converting(one) = &self.phases[found] else { return };
        if !one.conversion.is_asking() {
            return;
        }
        let Converting { conversion, from, .. } = one.clone();
        let mode = conversion.request().mode;
        self.phases.remove(found);
        match conversion.handle_reply(converted) {
            AfterConversion::Granted { tokens, wanted, suspect } => {
                self.keep_other_readers(*from);
                let begun = (conversion.next(), tokens, wanted, suspect);
                self.hold_converted(world, mode, begun, now(sent));
            }
            AfterConversion::Refused { wanted } => {
                let mut holding = *from;
                if let Some(shared) = &mut holding.shared {
                    shared.handle_upgrade_refused(wanted);
                }
                self.phases.push(Phase::Holding(holding));
            }
            AfterConversion::Lost(ends) => {
                for release in ends {
                    self.end(world, release, None);
                }
            }
        }
    }

    /// Only a planted bug leaves readers beside the one that has become a writer.
    fn keep_other_readers(&mut self, mut from: Holding) {
        let others = from.shared.as_mut().is_some_and(|shared| shared.leave().is_none());
        if others {
            self.phases.push(Phase::Holding(from));
        }
    }

    fn hold_converted(
        &mut self,
        world: &mut World<'_>,
        mode: Mode,
        (attempt, tokens, wanted, suspect): (leasehold_proto::AttemptId, TokenBlock, bool, bool),
        sent: Now,
    ) {
        let granted = Granted { tokens, until: None, offer: false, wanted, slots: Vec::new() };
        let want = if mode == Mode::Write { Want::Write } else { Want::Read };
        let tokens = want.tokens(tokens);
        let Ok(lease) = granted.lease(sent, world.now(), world.terms(), 0, world.rules) else {
            return self.end(world, tokens.end(attempt, suspect, None, world.rules), None);
        };
        let shared = (mode == Mode::Read)
            .then(|| SharedRead::new(attempt, tokens.token(), wanted, suspect, world.rules));
        let holding = Holding {
            attempt,
            want,
            task: Use::Hold(want),
            tokens,
            slots: Vec::new(),
            lease,
            shared,
            cached: false,
            offered: false,
            suspect,
            renewing: None,
        };
        world.uses(&holding);
        self.phases.push(Phase::Holding(holding));
    }

    /// The task of a conversion is dropped, or its first lease has ended: both attempts end.
    pub(super) fn abandon(&mut self, world: &mut World<'_>, found: usize) {
        let Phase::Converting(one) = self.phases.remove(found) else { return };
        world.no_answer(self.id, one.conversion.next());
        for release in one.conversion.abandon() {
            self.end(world, release, None);
        }
    }
}
