//! The statements about the bytes of a semaphore or a latch.

use crate::tables::Tables;

impl Tables {
    /// Reads the record of a name.
    pub(crate) fn ask_data(&self, name: &str) -> String {
        format!("SELECT data FROM {} WHERE name = {name}", self.records)
    }

    /// Reads the stamp of a name again, after all other rows about it.
    pub(crate) fn ask_stamp(&self, name: &str) -> String {
        format!("SELECT stamp FROM {} WHERE name = {name}", self.locks)
    }

    /// Writes the record of a name, if the row of the name has this stamp.
    pub(crate) fn write_data(
        &self,
        name: &str,
        stamp: i64,
        until_us: u64,
        data: &[u8],
    ) -> [String; 2] {
        let Self { dialect, locks, records, .. } = self;
        let ours = format!("name = {name} AND stamp = {stamp}");
        let data = dialect.bytes(data);
        [
            format!(
                "DELETE FROM {records} WHERE name = {name} \
                 AND EXISTS (SELECT 1 FROM {locks} WHERE {ours})"
            ),
            format!(
                "INSERT INTO {records} (name, until_us, data) \
                 SELECT {name}, {until_us}, {data} FROM {locks} WHERE {ours}"
            ),
        ]
    }
}
