//! A certificate authority for one test, with a server's and a client's certificate, by `openssl`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::find;
use crate::programs::needed;

/// Certificates and keys (ECDSA on P-256, PKCS #8) as PEM files that go with the last clone. The
/// server's is for `127.0.0.1` and `localhost`; both are valid for a day.
#[derive(Clone, Debug)]
pub struct Certificates {
    directory: Arc<TempDir>,
}

impl Certificates {
    /// Whether `openssl` is installed.
    pub fn is_present() -> bool {
        find("openssl").is_some()
    }

    /// Makes them.
    ///
    /// # Errors
    /// Without `openssl`, or with what it says.
    pub fn make() -> io::Result<Self> {
        Self::make_for("1")
    }

    /// The same, but the server's has expired, and the client's too.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn make_expired() -> io::Result<Self> {
        Self::make_for("-1")
    }

    fn make_for(days: &str) -> io::Result<Self> {
        let directory = Arc::new(tempfile::tempdir()?);
        let path = directory.path();
        let ca = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"];
        certificate(path, "ca", "1", &ca)?;
        for (who, usage) in [("server", "serverAuth"), ("client", "clientAuth")] {
            signed(path, who, days, usage)?;
        }
        Ok(Self { directory })
    }

    /// Makes another key and certificate for the server, signed by the same authority, in the place of those that it has.
    /// A server has them when it reloads its files.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn renew(&self) -> io::Result<()> {
        signed(self.directory.path(), "next", "1", "serverAuth")?;
        let next = |kind: &str| self.directory.path().join(format!("next.{kind}"));
        std::fs::rename(next("key"), self.server_key())?;
        std::fs::rename(next("crt"), self.server())
    }

    /// Puts the key and certificate for the server of another authority, which clients do not know, in the place of those
    /// that it has.
    ///
    /// # Errors
    /// What the system says.
    pub fn take_server_of(&self, other: &Self) -> io::Result<()> {
        std::fs::copy(other.server_key(), self.server_key())?;
        std::fs::copy(other.server(), self.server()).map(drop)
    }

    /// The authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// The server's certificate.
    pub fn server(&self) -> PathBuf {
        self.directory.path().join("server.crt")
    }

    /// The server's key.
    pub fn server_key(&self) -> PathBuf {
        self.directory.path().join("server.key")
    }

    /// Gives a server its certificate and key, and the authority by which it knows clients:
    /// `server.crt`, `server.key` and `authority.crt` in its directory.
    pub(super) fn give(&self, daemon: &Daemon) -> io::Result<()> {
        daemon.write("authority.crt", &std::fs::read(self.authority())?)?;
        daemon.write("server.crt", &std::fs::read(self.server())?)?;
        daemon.write("server.key", &std::fs::read(self.server_key())?)
    }

    /// The client's certificate.
    pub fn client(&self) -> PathBuf {
        self.directory.path().join("client.crt")
    }

    /// The client's key.
    pub fn client_key(&self) -> PathBuf {
        self.directory.path().join("client.key")
    }
}

/// Writes `who.key` and `who.crt`, for one use.
fn signed(directory: &Path, who: &str, days: &str, usage: &str) -> io::Result<()> {
    let name = "subjectAltName=IP:127.0.0.1,DNS:localhost";
    let usage = format!("extendedKeyUsage={usage}");
    certificate(directory, who, days, &["basicConstraints=critical,CA:FALSE", name, &usage])
}

/// Writes `who.key` and `who.crt`, signed by the authority, which signs itself.
fn certificate(directory: &Path, who: &str, days: &str, extensions: &[&str]) -> io::Result<()> {
    let (key, request) = (format!("{who}.key"), format!("{who}.csr"));
    let extension_file = directory.join("extensions");
    std::fs::write(&extension_file, extensions.join("\n"))?;
    let algorithm = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    openssl(directory, &[&["genpkey", "-out", &key], &algorithm[..]].concat())?;
    let subject = format!("/CN=leasehold test {who}");
    // The machine's own configuration, if there is one, must not matter.
    let config = ["-config", "/dev/null"];
    let new = ["req", "-new", "-key", &key, "-subj", &subject, "-out", &request];
    openssl(directory, &[&new[..], &config[..]].concat())?;
    let certificate = format!("{who}.crt");
    let mut sign = vec!["x509", "-req", "-in", &request, "-out", &certificate, "-days", days];
    sign.extend(["-extfile", "extensions"]);
    match who {
        "ca" => sign.extend(["-signkey", &key]),
        _ => sign.extend(["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]),
    }
    openssl(directory, &sign)
}

fn openssl(directory: &Path, args: &[&str]) -> io::Result<()> {
    let program = needed("openssl", "openssl")?;
    let mut command = Command::new(program);
    let output = command.args(args).current_dir(directory).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("openssl {}: {said}", args.join(" "))))
}
