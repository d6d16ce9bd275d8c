//! Files: open, flock, close; who has to wait does so on a thread, and the kernel wakes it.

use std::fs::File;
use std::path::PathBuf;

use crate::Result;
use crate::engines::load::{Engine, Taker};
use crate::store::StoreAddress;

pub(super) struct Files(PathBuf);

impl Engine for Files {
    type Taker = Path;

    async fn open(place: &StoreAddress) -> Result<Self> {
        let path = place.url.strip_prefix("file:").ok_or("a file: URL is needed")?;
        let folder = PathBuf::from(format!("{path}-raw"));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn taker(&self, name: String) -> Path {
        Path(self.0.join(format!("{}.lock", name.replace('/', "-"))), None)
    }

    async fn ask(&mut self) -> Result<bool> {
        Ok(false)
    }

    async fn close(self) {}
}

pub(super) struct Path(PathBuf, Option<Locked>);

#[cfg(unix)]
type Locked = nix::fcntl::Flock<File>;
#[cfg(not(unix))]
type Locked = File;

impl Taker for Path {
    #[cfg(unix)]
    async fn acquire(&mut self) -> Result<()> {
        use nix::errno::Errno;
        use nix::fcntl::{Flock, FlockArg};
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&self.0)?;
        let locked = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((file, Errno::EWOULDBLOCK)) => {
                let waiting = move || Flock::lock(file, FlockArg::LockExclusive);
                tokio::task::spawn_blocking(waiting).await?
            }
            done => done,
        };
        self.1 = Some(locked.map_err(|(_, error)| error)?);
        Ok(())
    }

    #[cfg(not(unix))]
    async fn acquire(&mut self) -> Result<()> {
        Err("there is no flock here".into())
    }

    async fn release(&mut self) -> Result<()> {
        // Dropped, it unlocks and closes.
        self.1 = None;
        Ok(())
    }
}
