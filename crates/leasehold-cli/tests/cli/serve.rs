//! `leasehold serve` as curl and other programs use it, and what is left when a process is killed.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_test_servers::{Needs, RedisSettings};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::redis::server;
use crate::support::{Running, WorkDir, until};

const TOKEN: &str = "holder-token-0123456789abcdef";

/// Starts a server of this store on a unix socket, `s` in the working directory.
fn on_socket(place: &WorkDir, store: &str) -> Running {
    let socket = format!("unix:{}", place.path("s").display());
    let mut command = place.program(crate::support::LEASEHOLD);
    command.args(["serve", "--store", &format!("main={store}"), "--listen", &socket]);
    let running = Running::new(&mut command);
    place.until_exists("s");
    running
}

/// curl for a change of the lock `a`.
fn curl(place: &WorkDir, path: &str) -> Command {
    let mut curl = place.program("curl");
    curl.args(["-sN", "-X", "POST", "-H", "X-Leasehold: 1", "--unix-socket"]);
    curl.arg(place.path("s")).arg(format!("http://localhost/v1/stores/main/locks/a/{path}"));
    curl
}

/// A hold by curl, whose lines are in a file.
struct Hold<'a> {
    place: &'a WorkDir,
    file: &'static str,
    sent: Instant,
    curl: Running,
}

impl<'a> Hold<'a> {
    fn start(place: &'a WorkDir, query: &str, file: &'static str) -> Self {
        let sent = Instant::now();
        let mut command = curl(place, &format!("hold?{query}"));
        command.stdout(fs::File::create(place.path(file)).unwrap()).stderr(Stdio::null());
        Self { place, file, sent, curl: Running::from(command.spawn().unwrap()) }
    }

    fn lines(&self) -> Vec<Value> {
        let text = self.place.read(self.file);
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn until(&self, key: &str) -> Value {
        let find = || self.lines().into_iter().find(|line| line.get(key).is_some());
        until(&format!("there is a line {key}"), || find().is_some());
        find().unwrap()[key].take()
    }

    /// The moment until which the client may rely on the lock, by all that it was sent.
    fn promised(&self) -> Instant {
        let of = |line: &Value| line.as_object()?.values().next()?["valid_until_ms"].as_u64();
        let last = self.lines().iter().filter_map(of).max().unwrap();
        self.sent + Duration::from_millis(last)
    }
}

/// Takes the lock `a` without the server, and returns when.
fn taken(place: &WorkDir, store: &str) -> Instant {
    let mut command = place.program(crate::support::LEASEHOLD);
    let done = command.args(["run", "--store", store, "a", "--", "true"]).status().unwrap();
    assert!(done.success());
    Instant::now()
}

#[test]
fn eight_loops_of_two_hundred_holds_by_curl_count_to_sixteen_hundred() {
    let place = WorkDir::new();
    let serving = on_socket(&place, &place.store());
    place.write("number", "0\n");
    let script = "
        for i in $(seq 200); do
            exec 3< <(exec curl -sN -X POST -H 'X-Leasehold: 1' --unix-socket s \\
                'http://localhost/v1/stores/main/locks/counter/hold?wait=10m&on-close=release')
            curl=$!
            while read -r -u 3 line; do
                case $line in *'\"held\"'*) break ;; esac
            done
            case $line in *'\"held\"'*) ;; *) echo \"$line\" >&2; exit 1 ;; esac
            read -r n < number; echo $((n + 1)) > number
            echo \"$line\" >> held
            kill $curl; exec 3<&-
        done";
    let start = || place.program("bash").arg("-c").arg(script).spawn().unwrap();
    let all: Vec<_> = (0..8).map(|_| start()).collect();
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.read("number"), "1600\n");
    let token = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["held"]["token"].as_u64().unwrap()
    };
    let held = place.read("held");
    let tokens: Vec<u64> = held.lines().map(token).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "each larger than the one before");
    drop(serving);
}

#[test]
fn a_killed_curl_keeps_its_lock_until_its_last_validity_has_passed() {
    let place = WorkDir::new();
    let _serving = on_socket(&place, &place.store());
    let hold = Hold::start(&place, "ttl=3s", "lines");
    hold.until("heartbeat");
    hold.curl.send(Signal::SIGKILL);
    let at = taken(&place, &place.store());
    assert!(at >= hold.promised(), "too early by {:?}", hold.promised() - at);
}

#[test]
fn a_killed_server_leaves_its_locks_taken_until_their_deadlines() {
    let Some(redis) = server(RedisSettings::new()) else { return };
    let place = WorkDir::new();
    let serving = on_socket(&place, &redis.url());
    let hold = Hold::start(&place, "ttl=4s", "lines");
    assert_eq!(hold.until("held")["outlives_server"], true);
    hold.until("heartbeat");
    serving.send(Signal::SIGKILL);
    let at = taken(&place, &redis.url());
    assert!(at >= hold.promised(), "too early by {:?}", hold.promised() - at);
}

#[test]
fn a_server_that_ends_says_so_and_leaves_locks_taken() {
    let Some(redis) = server(RedisSettings::new()) else { return };
    let place = WorkDir::new();
    let serving = on_socket(&place, &redis.url());
    let hold = Hold::start(&place, "ttl=10m", "lines");
    hold.until("held");
    let waiting = Hold::start(&place, "wait=10m", "waiting");
    waiting.until("queued");
    serving.send(Signal::SIGTERM);
    assert_eq!(hold.until("ending")["kind"], "stopping");
    assert_eq!(waiting.until("error")["status"], 503);
    let done = serving.end();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("stopping"), "{done:?}");
    let mut status = place.program(crate::support::LEASEHOLD);
    let status = status.args(["status", "--store", &redis.url(), "--json", "a"]).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&status["state"], &status["waiters"]), (&"held".into(), &Value::Array(vec![])));
    assert!(!place.path("s").exists());
}

#[test]
fn a_second_signal_ends_a_server_that_waits_for_its_leases() {
    let place = WorkDir::new();
    let serving = on_socket(&place, &place.store());
    let hold = Hold::start(&place, "ttl=10m", "lines");
    assert_eq!(hold.until("held")["outlives_server"], false);
    // Its terminal is closed.
    serving.send(Signal::SIGHUP);
    assert_eq!(hold.until("ending")["kind"], "stopping");
    // It waits for the lease, and answers meanwhile.
    let answer = curl(&place, "acquire?wait=0").output().unwrap();
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(answer["kind"], "stopping");
    serving.send(Signal::SIGTERM);
    assert_eq!(serving.end().code, 0);
    taken(&place, &place.store());
}

#[test]
fn an_address_that_others_can_reach_needs_tokens_and_tls() {
    let place = WorkDir::new();
    let done = place.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(done.code, 125);
    for part in ["--token-file", "--tls-cert and --tls-key", "--host NAME"] {
        assert!(done.err.contains(part), "{}", done.err);
    }
}

#[test]
fn a_killed_server_of_a_directory_leaves_its_locks_free_at_once() {
    let place = WorkDir::new();
    let mut serving = on_socket(&place, &place.store());
    let hold = Hold::start(&place, "ttl=24h", "lines");
    let held = hold.until("held");
    assert_eq!(held["outlives_server"], false);
    assert!(held["valid_until_ms"].as_u64().unwrap() > 3_600_000, "{held}");
    assert_ne!(place.run(&["run", "-n", "a", "--", "true"]).code, 0, "it is taken");
    serving.send(Signal::SIGKILL);
    serving.until_ended();
    // The validity that the client was sent lasts for hours.
    let mut next = place.leasehold(&["run", "-n", "a", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"]);
    let next = next.output().unwrap();
    assert!(next.status.success(), "{next:?}");
    let token: u64 = String::from_utf8_lossy(&next.stdout).trim().parse().unwrap();
    assert!(token > held["token"].as_u64().unwrap());
}

const PAGE: &str = include_str!("../../../../docs/serve.md");

/// A program of the page.
struct PageProgram {
    language: &'static str,
    file: &'static str,
    /// The program of its language, and what compiles the file, if that is a step of its own: on a new machine Go compiles
    /// its library first, for minutes.
    compile: (&'static str, &'static [&'static str]),
    start: &'static [&'static str],
}

const PROGRAMS: [PageProgram; 4] = [
    PageProgram {
        language: "python",
        file: "hold.py",
        compile: ("python3", &[]),
        start: &["python3", "hold.py"],
    },
    PageProgram {
        language: "js",
        file: "hold.mjs",
        compile: ("node", &[]),
        start: &["node", "hold.mjs"],
    },
    PageProgram {
        language: "go",
        file: "hold.go",
        compile: ("go", &["build", "-o", "hold-go", "hold.go"]),
        start: &["./hold-go"],
    },
    PageProgram {
        language: "java",
        file: "Hold.java",
        compile: ("java", &[]),
        start: &["java", "Hold.java"],
    },
];

/// The programs of the page whose language is installed.
fn programs() -> impl Iterator<Item = PageProgram> {
    PROGRAMS.into_iter().filter(|PageProgram { compile: (program, _), .. }| {
        let found = Command::new("which").arg(program).output();
        let is_installed = found.is_ok_and(|found| found.status.success());
        if !is_installed {
            eprintln!("{program} is not installed");
        }
        is_installed
    })
}

/// Starts a server with a token on an address. Returns it, and its address.
fn on_address(place: &WorkDir, store: &str) -> (Running, String) {
    let tokens = place.write("tokens", &format!("hold jobs {TOKEN}\n"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(tokens, mode).unwrap();
    let store = format!("main={store}");
    let mut command = place.program(crate::support::LEASEHOLD);
    command.args(["serve", "--store", &store, "--listen", "localhost:0", "--token-file", "tokens"]);
    listening(place, &mut command)
}

/// Starts this server, whose standard error is the file `err`, and waits until it listens.
fn listening(place: &WorkDir, command: &mut Command) -> (Running, String) {
    command.stdout(Stdio::null()).stderr(fs::File::create(place.path("err")).unwrap());
    let serving = Running::from(command.spawn().unwrap());
    until("it listens", || place.read("err").contains("listening on"));
    let said = place.read("err");
    let address = said.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
    (serving, address.to_owned())
}

/// Runs each program of the page while another client holds the lock, which it then releases.
fn contend(store: &str) {
    let place = WorkDir::new();
    let (_serving, address) = on_address(&place, store);
    let leasehold = |arguments: &[&str]| {
        let mut command = place.program(crate::support::LEASEHOLD);
        command.args([&[arguments[0], "--store", store], &arguments[1..]].concat());
        command
    };
    for PageProgram { language, file, compile, start } in programs() {
        let code = block(PAGE, language).replace("127.0.0.1:7411", &address);
        // The programs may start slowly.
        place.write(file, &code.replace("wait=30s", "wait=10m"));
        if !compile.1.is_empty() {
            let mut compiler = place.program(compile.0);
            let done = compiler.args(compile.1).env("GO111MODULE", "off").output().unwrap();
            assert!(done.status.success(), "{language}: {done:?}");
        }
        let (ready, go) = (format!("ready-{language}"), format!("go-{language}"));
        let script = format!(
            "echo $LEASEHOLD_TOKEN > held; touch {ready}; until test -e {go}; do sleep 0.02; done"
        );
        let holder = Running::new(&mut leasehold(&["run", "report", "--", "sh", "-c", &script]));
        place.until_exists(&ready);
        let mut command = place.program(start[0]);
        command.args(&start[1..]).env("TOKEN", TOKEN);
        let program = Running::new(&mut command);
        let status = || {
            let url = format!("http://{address}/v1/stores/main/locks/report");
            let answer = place.program("curl").args(["-s", &url]).output().unwrap();
            serde_json::from_slice::<Value>(&answer.stdout).unwrap_or_default()
        };
        let began = Instant::now();
        while status()["waiting_at_server"] != 1 {
            assert!(began.elapsed() < START, "{language}: it does not wait for the lock");
            std::thread::sleep(Duration::from_millis(20));
        }
        let held: u64 = place.read("held").trim().parse().unwrap();
        place.write(&go, "");
        let done = program.end();
        assert_eq!(done.code, 0, "{language}: {done:?}");
        let token = done.out.trim().strip_prefix("working with token ").unwrap_or_default();
        assert!(token.parse::<u64>().unwrap() > held, "{language}: {done:?}");
        assert_eq!(holder.end().code, 0);
        // It has released the lock.
        let next = leasehold(&["run", "-n", "report", "--", "true"]).status().unwrap();
        assert!(next.success(), "{language}");
    }
}

/// How long a program may take to start on a busy machine.
const START: Duration = Duration::from_secs(120);

#[test]
fn the_programs_of_the_page_wait_for_a_lock_in_a_directory() {
    let place = WorkDir::new();
    contend(&place.store());
}

#[test]
fn the_programs_of_the_page_wait_for_a_lock_in_redis() {
    let Some(redis) = server(RedisSettings::new()) else { return };
    contend(&redis.url());
}

#[test]
fn the_steps_at_the_start_of_the_page_can_be_pasted() {
    if Needs::OpenSsl.is_skipped() {
        return;
    }
    let place = WorkDir::new();
    let (first, second) = PAGE.split_once("```sh\n").unwrap().1.split_once("```sh\n").unwrap();
    let (first, second) = (first.split("```").next().unwrap(), second.split("```").next().unwrap());
    let (make, serve) = first.trim().rsplit_once('\n').unwrap();
    let made = place.program("bash").args(["-ec", make]).status().unwrap();
    assert!(made.success());
    let serve = serve.replace("redis://127.0.0.1", &place.store());
    let words: Vec<&str> = serve.split_whitespace().collect();
    assert_eq!(words[..2], ["leasehold", "serve"]);
    let mut command = place.program(crate::support::LEASEHOLD);
    command.args(&words[1..]).args(["--listen", "127.0.0.1:0"]);
    let (_serving, address) = listening(&place, &mut command);
    let second = second.replace("127.0.0.1:7411", &address);
    let done = place.program("bash").args(["-ec", &second]).output().unwrap();
    let granted: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| {
        panic!("{error}: {done:?}");
    });
    assert!(granted["lease"].is_string() && granted["ttl_ms"] == 30_000, "{granted}");
    // The stream further down finds the lock taken.
    let (_, hold) = PAGE.split_once("```sh\ncurl -N").unwrap();
    let hold = format!("export TOKEN=$(cut -d ' ' -f 3 tokens); curl -N{hold}");
    let hold = hold.split("```").next().unwrap().replace("wait=30s", "wait=1ms");
    let hold = hold.replace("127.0.0.1:7411", &address);
    let done = place.program("bash").args(["-ec", &hold]).output().unwrap();
    let problem: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(problem["kind"], "timeout", "{problem}");
}

const UNIT: &str = include_str!("../../../leasehold-serve/deploy/leasehold-serve.service");
const IMAGE: &str = include_str!("../../../leasehold-serve/deploy/Containerfile");

#[test]
fn the_unit_for_systemd_is_valid_and_starts_a_server_on_its_socket() {
    let place = WorkDir::new();
    let command = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some("/usr/local/bin/leasehold"));
    let socket = place.path("serve.sock");
    let here = |word: &str| match word {
        "main=redis://127.0.0.1" => format!("main={}", place.store()),
        "unix:/run/leasehold/serve.sock" => format!("unix:{}", socket.display()),
        word => word.to_owned(),
    };
    let words: Vec<String> = words.map(here).collect();
    let mut server = place.program(crate::support::LEASEHOLD);
    let server = Running::new(server.args(&words));
    place.until_exists("serve.sock");
    drop(server);

    // The program of the unit is not installed where the tests run.
    let unit = UNIT.replace(command, "/bin/true");
    let unit = place.write("leasehold-serve.service", &unit);
    let mut verify = place.program("systemd-analyze");
    let Ok(done) = verify.args(["verify", "--recursive-errors=no"]).arg(unit).output() else {
        eprintln!("SKIPPED: systemd-analyze is not installed");
        return;
    };
    let told = String::from_utf8_lossy(&done.stderr);
    let named = told.lines().filter(|line| line.contains("leasehold-serve.service"));
    assert_eq!(named.count(), 0, "{told}");
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn the_image_builds_the_command_with_features_that_it_has_and_starts_the_server() {
    let manifest = include_str!("../../Cargo.toml");
    assert!(IMAGE.contains("cargo build --release --locked -p leasehold-cli --features full"));
    assert!(manifest.contains("\nfull = [") && manifest.contains("name = \"leasehold\""));
    assert!(IMAGE.contains("ENTRYPOINT [\"/usr/local/bin/leasehold\", \"serve\"]"));
    assert!(!IMAGE.lines().any(|line| line.starts_with("USER 0") || line.starts_with("USER root")));
    // Every option of the examples exists: the server refuses only the files, which are not there.
    let place = WorkDir::new();
    let options = IMAGE.lines().filter_map(|line| line.strip_prefix("#         "));
    let options: Vec<String> = options
        .flat_map(|line| line.trim_end_matches('\\').split_whitespace())
        .map(str::to_owned)
        .collect();
    assert_eq!(options.iter().filter(|word| word.starts_with("--")).count(), 6, "{options:?}");
    let arguments: Vec<&str> =
        ["serve"].into_iter().chain(options.iter().map(String::as_str)).collect();
    let done = place.run(&arguments);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.err.contains("/secrets/tokens"), "{done:?}");
    let done = place.run(&["serve", "--help"]);
    assert_eq!(done.code, 0, "{done:?}");
}

/// The first block of a language on a page.
fn block(page: &str, language: &str) -> String {
    let start = format!("```{language}\n");
    let rest = page.split_once(&start).unwrap_or_else(|| panic!("no block {language}")).1;
    rest.split_once("```").unwrap().0.to_owned()
}
