//! `cargo xtask book`: builds the documentation as a book, and shows it in a browser.

use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use tiny_http::{Header, Response, Server};

const USAGE: &str = "usage: cargo xtask book [--build | --port PORT]";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(good) => ExitCode::from(u8::from(!good)),
        Err(error) => {
            eprintln!("book: {error}");
            ExitCode::from(2)
        }
    }
}

/// Builds, and serves unless told not to; `Ok(false)` when links lead nowhere.
fn run(args: &[String]) -> Result<bool, String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let port = match args[..] {
        [] => Some(3000),
        ["--build"] => None,
        ["--port", port] => {
            Some(port.parse().map_err(|_| format!("--port {port}: not a port (0 to 65535)"))?)
        }
        _ => return Err(USAGE.to_owned()),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
    let output = root.join("target/book");
    let wrong = leasehold_book::build(&root, &output)?;
    for wrong in &wrong {
        eprintln!("{wrong}");
    }
    println!("built target/book/index.html and target/book/zh/index.html");
    if let Some(port) = port {
        serve(&output, port)?;
    }
    Ok(wrong.is_empty())
}

/// Serves the folder on this machine until the process ends.
fn serve(folder: &Path, port: u16) -> Result<(), String> {
    let server = Server::http(("127.0.0.1", port)).map_err(|error| {
        format!("port {port} of 127.0.0.1: {error}; choose another with --port")
    })?;
    println!("http://{}/ (English), http://{0}/zh/ (中文); end with Ctrl-C", server.server_addr());
    for request in server.incoming_requests() {
        if let Some(Ok(there)) =
            moved(folder, request.url()).map(|to| Header::from_bytes("Location", to))
        {
            let response = Response::empty(301).with_header(there);
            let _sent = request.respond(response);
            continue;
        }
        let found =
            file(folder, request.url()).and_then(|path| Some((File::open(&path).ok()?, path)));
        // A browser that goes away in the middle of a reply is no error.
        let _sent = match found {
            Some((file, path)) => {
                let mut response = Response::from_file(file);
                if let Ok(header) = Header::from_bytes("Content-Type", media_type(&path)) {
                    response.add_header(header);
                }
                request.respond(response)
            }
            None => request.respond(Response::from_string("not found").with_status_code(404)),
        };
    }
    Ok(())
}

/// The address of a folder that was asked for without the slash at its end: links in its page start from there.
fn moved(folder: &Path, url: &str) -> Option<String> {
    let path = url.split(['?', '#']).next()?;
    let is_folder = file(folder, url)?.ends_with("index.html") && !path.ends_with("index.html");
    (is_folder && !path.ends_with('/')).then(|| format!("{path}/{}", &url[path.len()..]))
}

/// The file for this address; none that lies outside the folder.
fn file(folder: &Path, url: &str) -> Option<PathBuf> {
    let path = url.split(['?', '#']).next()?.trim_start_matches('/');
    let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
    let path = Path::new(&*path);
    if !path.components().all(|component| matches!(component, Component::Normal(_))) {
        return None;
    }
    let path = folder.join(path);
    Some(if path.is_dir() { path.join("index.html") } else { path })
}

/// What kind of file it is, for the browser.
fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_slash_is_redirected() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let moved = |url| moved(folder, url);
        assert_eq!(moved("/src"), Some("/src/".to_owned()));
        assert_eq!(moved("/src?search=a"), Some("/src/?search=a".to_owned()));
        for stays in ["/", "/src/", "/src/lib.rs", "/src/index.html", "/none", "/../leasehold-book"]
        {
            assert_eq!(moved(stays), None, "{stays}");
        }
    }
}
