//! Tests of the record of a semaphore, and of the steps of several clients around it, with planted bugs.

use super::*;

fn limit(limit: u32) -> Limit {
    Limit::new(limit).unwrap()
}

fn seat(number: i32, slots: u32) -> Seat {
    Seat { number, slots }
}

#[test]
fn a_record_is_read_back_and_other_data_is_refused() {
    let mut record = SemaphoreRecord::new(limit(9));
    record.serve(&[seat(1, 2), seat(2, 1), seat(3, 3)], 70).unwrap();
    record.serve(&[seat(2, 1), seat(4, 4)], 70).unwrap();
    assert_eq!(record.permit(4).unwrap().slots, [0, 1, 3, 4]);
    let written = record.written();
    assert_eq!(
        str::from_utf8(&written).unwrap(),
        r#"{"limit":9,"version":1,"last":74,"permits":[[2,72,"2"],[4,74,"0-1,3-4"]]}"#
    );
    assert_eq!(SemaphoreRecord::parse(&written), Some(record));
    for bad in [
        "",
        r#"{"limit":0,"version":1,"last":0,"permits":[]}"#,
        r#"{"limit":1,"version":1,"last":0,"permits":[],"new":1}"#,
        r#"{"limit":1,"version":1,"last":0,"permits":[[1,0,"0"]]}"#,
        r#"{"limit":1,"version":1,"last":0,"permits":[[1,1,"1-0"]]}"#,
        r#"{"limit":1,"version":1,"last":0,"permits":[[1,1,"0,0"]]}"#,
        r#"{"limit":1,"version":1,"last":0,"permits":[[1,1,"0-10000"]]}"#,
        r#"{"limit":1,"version":1,"last":0,"permits":[[1,1,""]]}"#,
    ] {
        assert_eq!(SemaphoreRecord::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn the_largest_record_fits_into_a_request() {
    let mut record = SemaphoreRecord::new(limit(MAX_LIMIT));
    record.last = Token::MAX.get() - 20_000;
    let seats: Vec<Seat> = (0..MAX_LIMIT as i32).map(|n| seat(i32::MIN + n, 1)).collect();
    while !record.serve(&seats, 0).unwrap().is_empty() {}
    assert_eq!(record.permits.len(), MAX_LIMIT as usize);
    let bytes = record.written().len();
    // ZooKeeper accepts 1 MiB less 1 byte (jute.maxbuffer); a transaction also has the nodes that it changes.
    assert!(bytes < 500_000, "{bytes} bytes");
    assert_eq!(SemaphoreRecord::parse(&record.written()), Some(record));
}

#[test]
fn tokens_end_at_the_largest() {
    let mut record = SemaphoreRecord::new(limit(2));
    assert_eq!(record.serve(&[seat(1, 1)], i64::MAX), Err(UsedUp));
    record.last = Token::MAX.get() - 1;
    assert_eq!(record.serve(&[seat(1, 1)], 0), Ok(vec![1]));
    assert_eq!(record.serve(&[seat(1, 1), seat(2, 1)], 0), Err(UsedUp));
}

#[test]
fn a_waiter_for_more_than_the_limit_holds_no_one_up() {
    let mut record = SemaphoreRecord::new(limit(3));
    let seats = [seat(1, 1), seat(2, 3), seat(3, 1)];
    assert_eq!(record.serve(&seats, 0), Ok(vec![1]));
    assert_eq!(record.behind(&seats, 3), Some(2));
    assert_eq!(record.set_limit(1, limit(2)), Ok(true));
    assert_eq!(record.set_limit(1, limit(2)), Ok(false), "a repeat");
    assert_eq!(record.behind(&seats, 3), None);
    assert_eq!(record.serve(&seats, 0), Ok(vec![3]));
    assert!(record.check(Demand::new(3, 3).unwrap(), false).is_err());
    assert_eq!(record.set_limit(1, limit(3)), Err(Conflict { limit: Some(limit(2)), version: 2 }));
}

/// How a client may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slip {
    /// It lists the nodes before it reads the record.
    ListsFirst,
    /// It replaces the record without comparing the version.
    ComparesNothing,
    /// It does not check that the nodes exist which it gives slots to.
    ChecksNoNodes,
}

/// A client between its steps.
#[derive(Default)]
struct Reader {
    record: Option<(SemaphoreRecord, u64)>,
    seats: Option<Vec<Seat>>,
}

/// A semaphore as the servers have it, and what has happened to its slots.
struct World {
    random: fastrand::Rng,
    record: SemaphoreRecord,
    version: u64,
    seats: Vec<Seat>,
    next: i32,
    /// The highest token of each slot.
    marks: [u64; 4],
    /// The holders by the end that only the servers know.
    held: Vec<(i32, Vec<u32>)>,
    slip: Option<Slip>,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>, slip: Option<Slip>) -> Self {
        let mut record = SemaphoreRecord::new(limit(3));
        record.bug = bug;
        let (random, seats, held) = (fastrand::Rng::with_seed(seed), Vec::new(), Vec::new());
        Self { random, record, version: 0, seats, next: 0, marks: [0; 4], held, slip }
    }

    /// Takes one step. The error is what was broken.
    fn step(&mut self, readers: &mut [Reader]) -> Result<(), String> {
        match self.random.u32(0..12) {
            0..3 if self.seats.len() < 6 => {
                self.seats.push(seat(self.next, self.random.u32(1..4)));
                self.next += 1;
            }
            3 | 4 if !self.seats.is_empty() => {
                let gone = self.seats.remove(self.random.usize(0..self.seats.len())).number;
                self.held.retain(|(number, _)| *number != gone);
            }
            5 if self.random.u32(0..4) == 0 => {
                let new = limit(self.random.u32(1..5));
                self.record
                    .set_limit(self.record.version, new)
                    .map_err(|error| error.to_string())?;
                self.version += 1;
            }
            _ => {
                let at = self.random.usize(0..readers.len());
                self.read_or_write(&mut readers[at])?;
            }
        }
        Ok(())
    }

    fn read_or_write(&mut self, reader: &mut Reader) -> Result<(), String> {
        let lists_first = self.slip == Some(Slip::ListsFirst);
        match (&reader.record, &reader.seats) {
            (None, None) if lists_first => reader.seats = Some(self.seats.clone()),
            (None, _) => reader.record = Some((self.record.clone(), self.version)),
            (Some(_), None) => reader.seats = Some(self.seats.clone()),
            (Some(_), Some(_)) => self.write(std::mem::take(reader))?,
        }
        Ok(())
    }

    fn write(&mut self, reader: Reader) -> Result<(), String> {
        let (Some((mut record, version)), Some(seats)) = (reader.record, reader.seats) else {
            return Ok(());
        };
        let granted = record.serve(&seats, 0).map_err(|error| format!("{error:?}"))?;
        let is_there = |number: &i32| self.seats.iter().any(|seat| seat.number == *number);
        let fits = version == self.version || self.slip == Some(Slip::ComparesNothing);
        let there = granted.iter().all(is_there) || self.slip == Some(Slip::ChecksNoNodes);
        if granted.is_empty() || !fits || !there {
            return Ok(());
        }
        let first = self.first_waiter();
        (self.record, self.version) = (record, self.version + 1);
        for (at, number) in granted.iter().enumerate() {
            let permit = self.record.permit(*number).ok_or("granted nothing")?;
            if at == 0 && first.is_some_and(|first| first != *number) {
                return Err(format!("{number} passed {first:?}"));
            }
            for slot in &permit.slots {
                let mark = &mut self.marks[*slot as usize];
                if *mark >= permit.token.get() {
                    return Err(format!("the token of slot {slot} did not grow"));
                }
                *mark = permit.token.get();
                if self.held.iter().any(|(_, slots)| slots.contains(slot)) {
                    return Err(format!("slot {slot} is held twice"));
                }
            }
            if is_there_in(&self.seats, *number) {
                self.held.push((*number, permit.slots.clone()));
            } else {
                return Err(format!("{number} has a permit without a node"));
            }
        }
        let held: usize = self.held.iter().map(|(_, slots)| slots.len()).sum();
        match held > self.record.limit.get() as usize {
            true => Err(format!("{held} slots of {}", self.record.limit)),
            false => Ok(()),
        }
    }

    fn first_waiter(&self) -> Option<i32> {
        let waits = |seat: &&Seat| {
            let holds = self.held.iter().any(|(number, _)| *number == seat.number);
            !holds && seat.slots <= self.record.limit.get()
        };
        self.seats.iter().find(waits).map(|seat| seat.number)
    }

    /// Returns what is broken when all clients have stopped: a waiter that would never be served.
    fn at_rest(&mut self) -> Result<(), String> {
        loop {
            let record = Some((self.record.clone(), self.version));
            let reader = Reader { record, seats: Some(self.seats.clone()) };
            let before = self.version;
            self.write(reader)?;
            if before == self.version {
                break;
            }
        }
        let Some(first) = self.first_waiter() else { return Ok(()) };
        let held: usize = self.held.iter().map(|(_, slots)| slots.len()).sum();
        let free = (0..self.record.limit.get())
            .filter(|slot| !self.held.iter().any(|(_, slots)| slots.contains(slot)))
            .count();
        let wants =
            self.seats.iter().find(|seat| seat.number == first).map_or(0, |seat| seat.slots);
        let room = (self.record.limit.get() as usize).saturating_sub(held).min(free);
        match room >= wants as usize {
            true => Err(format!("{first} waits for ever")),
            false => Ok(()),
        }
    }
}

fn is_there_in(seats: &[Seat], number: i32) -> bool {
    seats.iter().any(|seat| seat.number == number)
}

/// Plays many histories, and returns what was broken first.
fn play(bug: Option<Bug>, slip: Option<Slip>) -> Result<(), String> {
    for seed in 0..400 {
        let mut world = World::new(seed, bug, slip);
        let mut readers = [Reader::default(), Reader::default(), Reader::default()];
        for _ in 0..150 {
            world.step(&mut readers)?;
        }
        world.at_rest()?;
    }
    Ok(())
}

/// A waiter that a low limit refuses is given slots after the limit has grown, by a client that is slow between its two
/// reads: too rare for random histories.
fn play_a_slow_reader(slip: Option<Slip>) -> Result<(), String> {
    let mut world = World::new(0, None, slip);
    let set_limit = |world: &mut World, version, new| {
        world.version += 1;
        world.record.set_limit(version, limit(new)).map_err(|error| error.to_string())
    };
    set_limit(&mut world, 1, 2)?;
    world.seats.push(seat(0, 3));
    let (mut slow, mut quick) = (Reader::default(), Reader::default());
    world.read_or_write(&mut slow)?;
    world.seats.push(seat(1, 1));
    for _ in 0..3 {
        world.read_or_write(&mut quick)?;
    }
    assert_eq!(world.held, [(1, vec![0])]);
    set_limit(&mut world, 2, 3)?;
    for _ in 0..2 {
        world.read_or_write(&mut slow)?;
    }
    Ok(())
}

#[test]
fn no_slot_is_held_twice_and_no_one_is_passed() {
    assert_eq!(play(None, None), Ok(()));
    assert_eq!(play_a_slow_reader(None), Ok(()));
}

#[test]
fn every_planted_bug_is_found() {
    let bugs =
        [Bug::SmallPassesFirst, Bug::OnlyFreeSlotsCount, Bug::TokensStay, Bug::GoneKeepTheirs];
    for bug in bugs {
        assert!(play(Some(bug), None).is_err(), "{bug:?}");
    }
    for slip in [Slip::ComparesNothing, Slip::ChecksNoNodes] {
        assert!(play(None, Some(slip)).is_err(), "{slip:?}");
    }
    assert!(play_a_slow_reader(Some(Slip::ListsFirst)).is_err());
}
