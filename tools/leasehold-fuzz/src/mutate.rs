//! Changes inputs of a corpus, in the same way in each run.

use fastrand::Rng;

/// Numbers at the borders of what readers accept.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "255",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
];

/// Bytes that have a meaning for some reader, or are no text.
const BYTES: &[u8] = b"\0\t\n\r \"#%&'*,-./09:;?@AG[\\]{|}~\x7f\x80\xc3\xff";

/// Returns one of the inputs with one to four changes.
pub fn mutated(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = rng.choice(corpus).cloned().unwrap_or_default();
    for _ in 0..rng.usize(1..=4) {
        change(&mut input, corpus, rng);
    }
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) {
    let start = rng.usize(0..=input.len());
    let end = (start + rng.usize(1..=16)).min(input.len());
    match rng.u8(0..9) {
        0 => {
            if let Some(byte) = input.get_mut(start) {
                *byte ^= 1 << rng.u8(0..8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(start) {
                *byte = rng.choice(BYTES.iter().copied()).unwrap_or_default();
            }
        }
        2 => input.insert(start, rng.choice(BYTES.iter().copied()).unwrap_or_default()),
        3 => drop(input.drain(start..end)),
        4 => input.truncate(start),
        5 => {
            let again = input[start..end].to_vec();
            input.splice(start..start, again);
        }
        6 => {
            let other = rng.choice(corpus).map_or(&[][..], Vec::as_slice);
            let from = rng.usize(0..=other.len());
            input.splice(start.., other[from..].iter().copied());
        }
        7 => {
            // A text of the same length keeps what follows in its place.
            let number = rng.choice(NUMBERS).unwrap_or_default().bytes().cycle();
            let number: Vec<u8> = number.take(end - start).collect();
            input.splice(start..end, number);
        }
        _ => number(input, rng),
    }
}

/// Replaces a number by another one.
fn number(input: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.usize(0..=input.len());
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|to| at + to) else {
        return;
    };
    let length = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = rng.choice(NUMBERS).unwrap_or_default();
    input.splice(start..start + length, number.bytes());
}
