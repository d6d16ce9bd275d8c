//! A browser without a window, driven by the DevTools protocol over a pipe.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::programs::missing;
use crate::{PATIENCE, Process, find, wait};

/// The names of the program, the first one that is installed counts.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Connects the descriptors 3 and 4, on which the browser speaks, with its standard input and output.
const PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A running browser with one page, which ends when it is dropped. It has a profile of its own.
#[derive(Debug)]
pub struct Chromium {
    process: Process,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    last: u64,
    /// Exceptions of scripts, and what the browser refused to load.
    faults: Vec<String>,
    folder: TempDir,
}

impl Chromium {
    /// Whether a browser is installed.
    pub fn is_present() -> bool {
        PROGRAMS.iter().any(|program| find(program).is_some())
    }

    /// Starts a browser with an empty page.
    ///
    /// # Errors
    /// `NotFound` without the program (package `chromium`); when it does not answer.
    pub fn start() -> io::Result<Self> {
        let program = PROGRAMS.iter().find_map(|program| find(program));
        let program = program.ok_or_else(|| missing("chromium", "chromium"))?;
        let shell = find("sh").ok_or_else(|| missing("sh", "dash"))?;
        let folder = TempDir::new()?;
        let mut process = Process::start(&shell, |command| {
            command.arg("-c").arg(PIPES).arg(program);
            // The pages are those of the test, and the sandbox needs rights that containers often lack.
            command.args(["--headless", "--no-sandbox", "--remote-debugging-pipe"]);
            command.args(["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
            command.args(["--disable-background-networking", "--disable-component-update"]);
            command.arg(format!("--user-data-dir={}", folder.path().display()));
            command.env("HOME", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        })?;
        let (input, output) = process.pipes().ok_or_else(|| io::Error::other("no pipes"))?;
        let (send, messages) = channel();
        // It ends with the browser.
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            process,
            input,
            messages,
            session: String::new(),
            last: 0,
            faults: Vec::new(),
            folder,
        };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method of the DevTools protocol for the page, and returns its result.
    ///
    /// # Errors
    /// The error of the browser; when it does not answer within [`PATIENCE`].
    pub fn call(&mut self, method: &str, parameters: Value) -> io::Result<Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.input.write_all(message.to_string().as_bytes())?;
        self.input.write_all(&[0])?;
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut message = self.messages.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    let what = format!("chromium did not answer {method} within {PATIENCE:?}");
                    io::Error::new(io::ErrorKind::TimedOut, what)
                }
                RecvTimeoutError::Disconnected => io::Error::other("chromium has ended"),
            })?;
            if message["id"] == self.last {
                return match message.get("error") {
                    Some(error) => Err(io::Error::other(format!("{method}: {error}"))),
                    None => Ok(message["result"].take()),
                };
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.faults.push(parameters["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                self.faults.push(parameters["entry"].to_string());
            }
            _ => {}
        }
    }

    /// Opens a page, and returns when it is loaded.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub fn open(&mut self, url: &str) -> io::Result<()> {
        let opened = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(error) = opened["errorText"].as_str() {
            return Err(io::Error::other(format!("{url}: {error}")));
        }
        self.until("document.readyState === 'complete'").map(|_| ())
    }

    /// Evaluates an expression in the page, waits for its promise, and returns the value.
    ///
    /// # Errors
    /// The exception, if it throws one.
    pub fn evaluate(&mut self, expression: &str) -> io::Result<Value> {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", parameters)?;
        match result.get("exceptionDetails") {
            Some(exception) => Err(io::Error::other(format!("{expression}: {exception}"))),
            None => Ok(result["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true in the page, [`PATIENCE`] at most, and returns how long it
    /// took. Pages may load meanwhile.
    ///
    /// # Errors
    /// `TimedOut`, with the text of the page.
    pub fn until(&mut self, expression: &str) -> io::Result<Duration> {
        let start = Instant::now();
        let expression = format!("!!({expression})");
        let waited = wait(&expression, || self.evaluate(&expression).is_ok_and(|so| so == true));
        waited.map(|()| start.elapsed()).map_err(|error| {
            let page = self.evaluate("location.href + '\\n' + document.body.innerText");
            io::Error::new(error.kind(), format!("{error}; the page: {page:?}"))
        })
    }

    /// Presses and releases a key, such as `Tab` or `Enter`.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn press(&mut self, key: &str, code: u32) -> io::Result<()> {
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// Sets the width of the page in pixels, and whether the system prefers dark colours.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn look(&mut self, width: u32, is_dark: bool) -> io::Result<()> {
        let size =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).map(|_| ())
    }

    /// Returns what went wrong in the page since the last call: exceptions of scripts, and what the
    /// browser refused to load.
    pub fn faults(&mut self) -> Vec<String> {
        while let Ok(event) = self.messages.try_recv() {
            self.note(&event);
        }
        std::mem::take(&mut self.faults)
    }
}

impl Drop for Chromium {
    /// Its other processes end after it, and may write to the folder until then.
    fn drop(&mut self) {
        self.process.kill();
        let folder = self.folder.path();
        wait("the browser's folder is removed", || fs::remove_dir_all(folder).is_ok()).ok();
    }
}
