//! So many processes with so many tasks each: `8x8`.

use std::fmt;

/// Processes and tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    /// In each process.
    pub(crate) tasks: usize,
}

/// Reads `8x8`.
pub(crate) fn shape(text: &str) -> Result<Shape, String> {
    let (processes, tasks) = text.split_once('x').unwrap_or((text, ""));
    match (processes.parse(), tasks.parse()) {
        (Ok(processes @ 1..=64), Ok(tasks @ 1..=10_000)) if processes * tasks <= 20_000 => {
            Ok(Shape { processes, tasks })
        }
        _ => Err(
            "write PROCESSESxTASKS, such as 8x8: up to 64 processes, 10000 tasks in each, 20000 \
             in all"
                .to_owned(),
        ),
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.processes, self.tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_two_numbers_within_reason() {
        assert_eq!(shape("8x64").unwrap(), Shape { processes: 8, tasks: 64 });
        for text in ["", "8", "0x1", "1x0", "65x1", "1x10001", "64x1000", "x", "2x2x2", "-1x1"] {
            assert!(shape(text).unwrap_err().contains("write PROCESSESxTASKS"), "{text}");
        }
    }
}
