//! A pipe whose reader does not read.

use std::io::{self, PipeReader, PipeWriter, Write as _};

use rustix::fs::{OFlags, fcntl_setfl};

/// Returns a pipe that is full: each write to it waits.
pub(super) fn full() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, mut writer) = io::pipe()?;
    fcntl_setfl(&writer, OFlags::NONBLOCK)?;
    for piece in [&[b'x'; 4096][..], b"x"] {
        while writer.write(piece).is_ok() {}
    }
    fcntl_setfl(&writer, OFlags::empty())?;
    Ok((reader, writer))
}
