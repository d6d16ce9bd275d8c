//! The two ways to play a story of a cache, a read-write lock or a semaphore.

use std::fmt;

use super::text::Language;

/// How the cache is kept, or the primitive is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Practice {
    /// As the story says.
    Recipe,
    /// By Leasehold.
    Leasehold,
}

impl Practice {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Recipe, Self::Leasehold];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recipe => "recipe",
            Self::Leasehold => "leasehold",
        }
    }

    /// In a sentence, for all stories that are played so.
    pub fn about(self, language: Language) -> &'static str {
        match self {
            Self::Recipe => {
                language.pick("what the story tells, written by hand", "故事里的做法，手写实现")
            }
            Self::Leasehold => language.pick(
                "Leasehold's cache, read-write lock or semaphore on one Redis",
                "Leasehold 的缓存、读写锁或信号量，一个 Redis",
            ),
        }
    }
}

impl fmt::Display for Practice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
