//! A set of numbers in Redis, in chunks, so that one large number does not take 512 MB.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_cache_redis::{ConsumerKind, Link, check_name};
use leasehold_core::clock::Clock;
use redis::{Script, cmd, pipe};

use super::{Operation, Sparse};
use crate::Result;

/// How many numbers a chunk has: 64 KiB of bits.
const CHUNK: u64 = 1 << 19;
/// The most commands in one pipeline.
const AT_ONCE: usize = 256;
const PREFIX: &str = "leasehold-bitmap";

/// A set of numbers in Redis that all processes share.
///
/// | key | what it holds |
/// |---|---|
/// | `{leasehold-bitmap:name}` | a Redis set with the numbers of the chunks that exist |
/// | `{leasehold-bitmap:name}:CHUNK` | the bits of 524,288 numbers, from `CHUNK * 524288`, as `SETBIT` counts them |
#[derive(Debug)]
pub struct Redis {
    link: Link,
    stem: String,
}

impl Redis {
    /// Opens the set of this name, without connecting to the Redis server of `url`. Names have the
    /// form of cache names.
    ///
    /// The set is empty until a number is inserted. `redis_limit` is how long Redis may take to
    /// answer.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name or URL that is not allowed, or
    /// outside a tokio runtime.
    pub fn open(url: &str, name: &str, redis_limit: Duration) -> Result<Self> {
        check_name("name", name)?;
        let stem = format!("{{{PREFIX}:{name}}}");
        let link = Link::open(url, redis_limit, Clock::system(), ConsumerKind::Bitmap, &stem)?;
        Ok(Self { link, stem })
    }

    /// Inserts a number. Returns false if the set already had it.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if Redis cannot be reached; the
    /// number may be inserted. [`ErrorKind::Foreign`](crate::ErrorKind::Foreign) if the key holds
    /// another type. The other methods return the same errors.
    pub async fn insert(&self, number: u64) -> Result<bool> {
        let (chunk, bit) = (number / CHUNK, number % CHUNK);
        let mut set = pipe();
        // In one step, so that no chunk is ever unknown.
        set.atomic().cmd("SADD").arg(&self.stem).arg(chunk).ignore();
        set.cmd("SETBIT").arg(self.key(chunk)).arg(bit).arg(1);
        let (was,): (bool,) = self.link.ask_all(&set).await?;
        Ok(!was)
    }

    /// Inserts many numbers with a few commands per chunk.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn insert_many(&self, numbers: &[u64]) -> Result<()> {
        let mut by_chunk: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for number in numbers {
            by_chunk.entry(number / CHUNK).or_default().push(number % CHUNK);
        }
        for (chunk, bits) in by_chunk {
            for bits in bits.chunks(AT_ONCE) {
                let mut set = pipe();
                set.atomic().cmd("SADD").arg(&self.stem).arg(chunk).ignore();
                set.cmd("BITFIELD").arg(self.key(chunk));
                for bit in bits {
                    set.arg("SET").arg("u1").arg(*bit).arg(1);
                }
                set.ignore();
                self.link.ask_all::<()>(&set).await?;
            }
        }
        Ok(())
    }

    /// Removes a number. Returns false if the set did not have it.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn remove(&self, number: u64) -> Result<bool> {
        // Where there is no chunk, none is made.
        if !self.contains(number).await? {
            return Ok(false);
        }
        let (chunk, bit) = (number / CHUNK, number % CHUNK);
        let mut clear = pipe();
        clear.atomic().cmd("SADD").arg(&self.stem).arg(chunk).ignore();
        clear.cmd("SETBIT").arg(self.key(chunk)).arg(bit).arg(0);
        let (was,): (bool,) = self.link.ask_all(&clear).await?;
        Ok(was)
    }

    /// Returns true if the set has the number.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn contains(&self, number: u64) -> Result<bool> {
        let (chunk, bit) = (number / CHUNK, number % CHUNK);
        self.link.ask(cmd("GETBIT").arg(self.key(chunk)).arg(bit)).await
    }

    /// Counts the numbers, on the server.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn count(&self) -> Result<u64> {
        let mut sum = 0;
        for chunks in self.chunks().await?.chunks(AT_ONCE) {
            let mut count = pipe();
            for chunk in chunks {
                count.cmd("BITCOUNT").arg(self.key(*chunk));
            }
            sum += self.link.ask_all::<Vec<u64>>(&count).await?.into_iter().sum::<u64>();
        }
        Ok(sum)
    }

    /// Reads all numbers. Each chunk is read at a slightly different time.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn load(&self) -> Result<Sparse> {
        let mut all = Sparse::new();
        for chunks in self.chunks().await?.chunks(AT_ONCE) {
            let mut read = pipe();
            for chunk in chunks {
                read.cmd("GET").arg(self.key(*chunk));
            }
            let read: Vec<Option<Vec<u8>>> = self.link.ask_all(&read).await?;
            for (chunk, bytes) in chunks.iter().zip(read) {
                // The server's first bit is a byte's highest.
                for (at, byte) in (0..).zip(bytes.unwrap_or_default()) {
                    let bits = (0..8).filter(|bit| byte & (128 >> bit) != 0);
                    all.extend(bits.map(|bit| chunk * CHUNK + at * 8 + bit));
                }
            }
        }
        Ok(all)
    }

    /// Replaces this set by the combination of two sets on the same server, in one atomic step.
    ///
    /// This set may be one of the two. The server needs about 10 µs per chunk of both sets, and
    /// runs no other command meanwhile.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). After an error the set may be replaced.
    pub async fn set_to(&self, one: &Self, operation: Operation, other: &Self) -> Result<()> {
        let script = Script::new(include_str!("../lua/combine.lua"));
        let mut call = script.prepare_invoke();
        call.key(&self.stem).key(&one.stem).key(&other.stem);
        call.arg(match operation {
            Operation::And => "AND",
            Operation::Or => "OR",
            Operation::Xor => "XOR",
            Operation::AndNot => "ANDNOT",
        });
        self.link.run(&call).await
    }

    /// Removes all numbers.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn clear(&self) -> Result<()> {
        let empty = format!("{}:nothing", self.stem);
        let empty = Self { link: self.link.clone(), stem: empty };
        self.set_to(&empty, Operation::And, &empty).await
    }

    async fn chunks(&self) -> Result<Vec<u64>> {
        self.link.ask(cmd("SMEMBERS").arg(&self.stem)).await
    }

    fn key(&self, chunk: u64) -> String {
        format!("{}:{chunk}", self.stem)
    }
}
