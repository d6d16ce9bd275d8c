//! The hand-off machine says the same as its protocol written down plainly, in random scripts.

#[cfg(test)]
#[path = "scripts/plain.rs"]
mod plain;

use std::time::Duration;

use leasehold_proto::handoff::{Part, Push, Record};
use leasehold_proto::{AttemptId, Now};
use leasehold_sim::script::{CLIENTS, Op, Replay, Request, Said, Script};
use plain::Plain;

const UNIT: Duration = Duration::from_secs(1);

/// Something that carries out requests at a given time.
trait Engine: Default {
    fn carry_out(
        &mut self,
        now: Duration,
        request: &Request,
        reach: &mut dyn FnMut(AttemptId, Push) -> bool,
    ) -> Said;

    fn forget(&mut self, part: Part);
}

impl Engine for Record {
    fn carry_out(
        &mut self,
        now: Duration,
        request: &Request,
        reach: &mut dyn FnMut(AttemptId, Push) -> bool,
    ) -> Said {
        let now = Now { steady_ns: now.as_nanos() as u64, wall_ns: 0 };
        match request {
            Request::Acquire(request) => Said::Acquired(self.acquire(now, request, reach)),
            Request::Renew(attempt, base, ttl) => {
                Said::Renewed(self.renew(now, *attempt, *base, *ttl))
            }
            Request::Release(release) => Said::Released(self.release(now, release, reach)),
            Request::Rotate(release, request) => {
                let (verdict, answer) = self.rotate(now, release, request, reach);
                Said::Rotated(verdict, answer)
            }
            Request::Force(token) => Said::Forced(self.force_release(now, *token, reach)),
        }
    }

    fn forget(&mut self, part: Part) {
        self.forget(part);
    }
}

impl Engine for Plain {
    fn carry_out(
        &mut self,
        now: Duration,
        request: &Request,
        reach: &mut dyn FnMut(AttemptId, Push) -> bool,
    ) -> Said {
        self.step(now, request, reach)
    }

    fn forget(&mut self, part: Part) {
        self.forget(part);
    }
}

/// What the engine says to each operation of the script.
fn replay<E: Engine>(script: &Script) -> Vec<String> {
    let (mut engine, mut replay) = (E::default(), Replay::default());
    let mut now = Duration::ZERO;
    let mut listening = [true; CLIENTS as usize];
    let place = |attempt: AttemptId| usize::from(attempt.to_bytes()[7]);
    let mut said = Vec::new();
    for op in &script.ops {
        match *op {
            Op::Pass(time) => now += time,
            Op::Forget(part) => engine.forget(part),
            Op::Listen(client, on) => listening[place(AttemptId::new(client, 0, 0))] = on,
            _ => {}
        }
        let Some(request) = replay.request(op) else {
            said.push(String::new());
            continue;
        };
        let mut pushed = Vec::new();
        let answer = engine.carry_out(now, &request, &mut |attempt, push| {
            let there = listening[place(attempt)];
            if there {
                pushed.push((attempt, push));
            }
            there
        });
        said.push(replay.heard(&request, answer, &pushed));
    }
    said
}

#[test]
fn the_machine_and_the_plain_protocol_say_the_same() {
    let mut heard = std::collections::BTreeMap::<String, usize>::new();
    for seed in 0..1000 {
        let script = Script::random(seed, 200, UNIT);
        let (machine, plain) = (replay::<Record>(&script), replay::<Plain>(&script));
        for (step, (one, other)) in machine.iter().zip(&plain).enumerate() {
            let before = &script.ops[..=step];
            assert_eq!(one, other, "seed {seed}, step {step} of {before:#?}");
        }
        for said in machine {
            let word = said.split(['(', ' ', ',']).next().unwrap_or_default();
            *heard.entry(word.to_owned()).or_default() += 1;
        }
    }
    for word in [
        "lease", "Queued", "Busy", "Ended", "Renewed", "Released", "Lost", "Gone", "Unknown",
        "Other", "NotHeld",
    ] {
        let times = heard.get(word).copied().unwrap_or(0);
        assert!(
            times > 100,
            "{word} was heard {times} times: the scripts are too tame ({heard:?})"
        );
    }
}

#[test]
fn a_seed_gives_the_same_script() {
    assert_eq!(Script::random(7, 50, UNIT), Script::random(7, 50, UNIT));
    assert_ne!(Script::random(7, 50, UNIT), Script::random(8, 50, UNIT));
}
