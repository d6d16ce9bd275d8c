//! A disk that is full: of a server, or of a store in files.

use leasehold_test_servers::Full;

use super::Cluster;
use crate::Result;
use crate::fault::Fault;
use crate::setup::SetUp;

impl Cluster {
    /// Lets no file of a server grow, or no write succeed.
    pub(super) fn fill(&mut self, at: usize, target: u64) -> Result<()> {
        self.were_full.remove(&at);
        let server = self.nodes[at].server();
        let full = if target.is_multiple_of(2) { Full::Growth } else { Full::Writes };
        match &self.disk {
            Some(disk) => disk.fill(&server.data()?, full)?,
            None => server.daemon()?.refuse_writes(true)?,
        }
        Ok(())
    }

    /// Ends what lasts.
    pub(crate) fn heal(&mut self, at: usize, fault: Fault) -> Result<()> {
        if fault == Fault::CutPeers {
            self.links.heal();
        }
        if fault != Fault::Full {
            let changed = self.nodes[at].heal(fault)?;
            self.wrong.extend(changed.map(|what| format!("at server {at}: {what}")));
            return Ok(());
        }
        let server = self.nodes[at].server();
        match &self.disk {
            Some(disk) => disk.free()?,
            None if server.daemon()?.has_ended() => {}
            None => server.daemon()?.refuse_writes(false)?,
        }
        server.recover()?;
        self.were_full.insert(at);
        self.revive()
    }

    /// Starts servers that have ended because their disk was full, which may be some time after it has space
    /// again.
    pub(crate) fn revive(&mut self) -> Result<()> {
        if self.setup.is_in_files() {
            return Ok(());
        }
        for at in self.were_full.clone() {
            if self.nodes[at].server().revive()? && self.setup == SetUp::Sentinel {
                self.follow_master(at)?;
            }
        }
        Ok(())
    }
}
