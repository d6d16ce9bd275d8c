//! Which request a fault is meant for.

use std::fmt;
use std::sync::Arc;

type Test = dyn Fn(&[&[u8]]) -> bool + Send + Sync;

/// A condition on the arguments of a request, the first of which is the command. Text converts
/// into [`Pattern::containing`] it. Commands are compared without regard to case by
/// [`Pattern::command`] alone.
#[derive(Clone)]
pub struct Pattern(Arc<Test>);

impl Pattern {
    /// Every request.
    pub fn any() -> Self {
        Self::when(|_| true)
    }

    /// Requests of this command, in upper or lower case.
    pub fn command(name: &str) -> Self {
        let name = name.as_bytes().to_vec();
        Self::when(move |args| args.first().is_some_and(|first| first.eq_ignore_ascii_case(&name)))
    }

    /// Requests one of whose arguments, the command included, has these bytes in it.
    pub fn containing(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::when(move |args| {
            let found = |arg: &[u8]| arg.windows(bytes.len()).any(|window| window == bytes);
            bytes.is_empty() || args.iter().any(|arg| found(arg))
        })
    }

    /// Requests whose arguments pass a test.
    pub fn when(test: impl Fn(&[&[u8]]) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// Requests that match both.
    #[must_use]
    pub fn and(self, other: impl Into<Pattern>) -> Self {
        let other = other.into();
        Self::when(move |args| self.matches(args) && other.matches(args))
    }

    pub(super) fn matches(&self, args: &[&[u8]]) -> bool {
        (self.0)(args)
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self::containing(text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pattern")
    }
}
