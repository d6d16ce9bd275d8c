//! As much of the Redis protocol, versions 2 and 3, as the kit needs: frames and their values.

use std::io;

/// A reply, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null of either version.
    Null,
    /// A number; a boolean is 0 or 1.
    Integer(i64),
    /// Any kind of string; doubles and big numbers as they were sent.
    Bytes(Vec<u8>),
    /// An error, as the server worded it.
    Error(String),
    /// An array, a set, or a map as its keys and values in turn.
    Array(Vec<Value>),
    /// What the server sent without being asked.
    Push(Vec<Value>),
}

impl Value {
    /// A string or number as text; empty for the rest.
    pub fn text(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Error(text) => text.clone(),
            Self::Null | Self::Array(_) | Self::Push(_) => String::new(),
        }
    }

    /// The number that it is, or that its text is.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            other => other.text().parse().ok(),
        }
    }

    /// The parts of an array or a push; none for the rest.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) | Self::Push(items) => items,
            _ => &[],
        }
    }
}

/// The first frame in `bytes` and its length; `None` while it is not complete. An inline command
/// (a line without a marker) is an array of its words; attributes are part of what they describe.
///
/// # Errors
/// `InvalidData` when it is not the protocol.
pub(super) fn frame(bytes: &[u8]) -> io::Result<Option<(Value, usize)>> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.value(0) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(Stop::Short) => Ok(None),
        Err(Stop::Bad) => Err(io::Error::new(io::ErrorKind::InvalidData, "not RESP")),
    }
}

/// A request as an array of its arguments.
pub(super) fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend(format!("${}\r\n", arg.len()).bytes());
        out.extend(arg);
        out.extend(b"\r\n");
    }
    out
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

enum Stop {
    Short,
    Bad,
}

/// Deeper than any reply of a server.
const DEEPEST: usize = 64;

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        if depth > DEEPEST {
            return Err(Stop::Bad);
        }
        // Before the end of the line is looked for: what is not the protocol may have none.
        let known = |byte: &u8| byte.is_ascii_alphabetic() || b"+,(-:#_$=!*~>%|\r\n".contains(byte);
        if !self.bytes.get(self.at).is_none_or(known) {
            return Err(Stop::Bad);
        }
        let line = self.line()?;
        let Some((&marker, rest)) = line.split_first() else {
            // An empty line between inline commands.
            return Ok(Value::Array(Vec::new()));
        };
        let text = || String::from_utf8_lossy(rest).into_owned();
        let count = || text().parse::<i64>().map_err(|_| Stop::Bad);
        Ok(match marker {
            b'+' | b',' | b'(' => Value::Bytes(rest.to_vec()),
            b'-' => Value::Error(text()),
            b':' => Value::Integer(count()?),
            b'#' => Value::Integer(i64::from(rest == b"t")),
            b'_' => Value::Null,
            b'$' | b'=' | b'!' => match usize::try_from(count()?) {
                Err(_) => Value::Null,
                Ok(length) => {
                    let bytes = self.bytes.get(self.at..self.at + length + 2).ok_or(Stop::Short)?;
                    self.at += length + 2;
                    let bytes = &bytes[..length];
                    match marker {
                        b'!' => Value::Error(String::from_utf8_lossy(bytes).into_owned()),
                        // Three letters of its kind and a colon come first.
                        b'=' => Value::Bytes(bytes.get(4..).unwrap_or_default().to_vec()),
                        _ => Value::Bytes(bytes.to_vec()),
                    }
                }
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let pairs = if matches!(marker, b'%' | b'|') { 2 } else { 1 };
                let Ok(length) = usize::try_from(count()?) else { return Ok(Value::Null) };
                let items: Vec<Value> =
                    (0..length * pairs).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?;
                match marker {
                    b'|' => self.value(depth)?,
                    b'>' => Value::Push(items),
                    _ => Value::Array(items),
                }
            }
            letter if letter.is_ascii_alphabetic() && depth == 0 => {
                let words = line.split(|byte| byte.is_ascii_whitespace());
                let words = words.filter(|word| !word.is_empty());
                Value::Array(words.map(|word| Value::Bytes(word.to_vec())).collect())
            }
            _ => return Err(Stop::Bad),
        })
    }

    /// The bytes up to the end of the line, which is passed over.
    fn line(&mut self) -> Result<&[u8], Stop> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or(Stop::Short)?;
        self.at += length + 1;
        Ok(rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_where_its_last_part_ends() {
        for text in [
            "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            "PING a\r\n",
            "%1\r\n+a\r\n*2\r\n:1\r\n_\r\n",
            ">3\r\n+message\r\n+c\r\n$2\r\n\r\n\r\n",
            "|1\r\n+a\r\n+b\r\n:7\r\n",
            "=5\r\ntxt:a\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "!4\r\nERR \r\n",
        ] {
            let more = format!("{text}:9\r\n");
            let (_, length) = frame(more.as_bytes()).unwrap().unwrap();
            assert_eq!(length, text.len(), "{text:?}");
            for short in 0..text.len() {
                assert!(frame(&text.as_bytes()[..short]).unwrap().is_none(), "{text:?} {short}");
            }
        }
        assert!(frame(b"\x16\x03\x01").is_err());
    }
}
