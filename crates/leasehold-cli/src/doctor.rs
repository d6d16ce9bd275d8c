//! `leasehold doctor`: reports what can harm locks on a store, the worst first.

use std::fmt::Write;
use std::io;

use anstyle::{AnsiColor, Style};
use leasehold::StoreUrl;
use leasehold::doctor::{Diagnosis, Finding, Severity, Unseen, diagnose, foreign_locks};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::advice::Advice;
use crate::cli::{DoctorArgs, Globals};
use crate::config::Config;
use crate::failure::{Failure, code as codes};
use crate::lang::{Lang, lang, text, told};
use crate::locate::Located;
use crate::{locate, output, sanitize, table, terminal};

/// Before the lines of a finding that follow its first line.
const INDENT: &str = "          ";

/// Prints the findings; the exit code is that of the worst one.
pub(crate) async fn doctor(args: &DoctorArgs, globals: &Globals) -> Result<u8, Failure> {
    let store = match &args.url {
        Some(url) => Located { url: url.clone(), by: "the command line" },
        None => {
            locate::store_url(globals.store.as_deref(), &Config::load(globals.config.as_deref())?)?
        }
    };
    let url = &store.url;
    let advice = |error| Advice::for_store(&store).on(error);
    let mut diagnosis = diagnose(url).await.map_err(advice)?;
    if let Some(prefix) = &args.prefix {
        diagnosis.join(foreign_locks(url, prefix).await.map_err(advice)?);
    }
    if args.json {
        output::answer(format_args!("{}\n", sanitize::json(&object(&diagnosis))))?;
    } else {
        let store = StoreUrl::parse(url).map(|url| url.to_string()).unwrap_or_default();
        output::answer(report(&store, &diagnosis, globals.quiet, terminal::width(io::stdout())))?;
    }
    Ok(code(&diagnosis))
}

fn code(diagnosis: &Diagnosis) -> u8 {
    match diagnosis.worst() {
        Some(Severity::Problem) => codes::PROBLEM,
        Some(Severity::Warning) => codes::WARNING,
        _ => 0,
    }
}

fn word(severity: Severity) -> (&'static str, Style) {
    match severity {
        Severity::Problem => ("problem", AnsiColor::Red.on_default().bold()),
        Severity::Warning => ("warning", AnsiColor::Yellow.on_default().bold()),
        _ => ("note", Style::new().bold()),
    }
}

/// Formats the findings for display, wrapped at this width; when quiet, without those that need no
/// change.
fn report(store: &str, diagnosis: &Diagnosis, quiet: bool, width: Option<usize>) -> String {
    let mut text = String::new();
    for finding in &diagnosis.findings {
        if !quiet || finding.severity > Severity::Note {
            add(&mut text, finding, width);
        }
    }
    for Unseen { place, what, why, .. } in diagnosis.unseen.iter().filter(|_| !quiet) {
        let what = text!("{}: {}", "{}：{}", sanitize::clean(place), sanitize::clean(&told(what)));
        text.push_str(&table::hanging(&text!("not seen  ", "看不到    "), &what, width));
        text.push_str(&table::hanging(INDENT, &sanitize::clean(&told(why)), width));
    }
    let count = |severity| diagnosis.findings.iter().filter(|f| f.severity == severity).count();
    if !quiet {
        let [problems, warnings, notes] =
            [Severity::Problem, Severity::Warning, Severity::Note].map(count);
        let unseen = diagnosis.unseen.len();
        if lang() == Lang::Chinese {
            let _ = writeln!(
                text,
                "{store}：{problems} 个问题，{warnings} 个警告，{notes} 个提示，{unseen} 项看不到"
            );
            return text;
        }
        let _ = writeln!(
            text,
            "{store}: {problems} problem{}, {warnings} warning{}, {notes} note{}, {unseen} not seen",
            plural(problems),
            plural(warnings),
            plural(notes)
        );
    }
    text
}

fn add(text: &mut String, finding: &Finding, width: Option<usize>) {
    let (word, style) = (word_shown(finding.severity), word(finding.severity).1);
    let line = |part: &str| sanitize::clean(&told(part));
    let (place, what) = (sanitize::clean(&place_shown(&finding.place)), line(&finding.what));
    let what = text!("{}: {} [{}]", "{}：{} [{}]", place, what, finding.id);
    let what = table::hanging(INDENT, &what, width);
    let blanks = " ".repeat(INDENT.len().saturating_sub(word.width()));
    let _ = write!(text, "{style}{word}{style:#}{blanks}{}", what.trim_start());
    text.push_str(&table::hanging(INDENT, &line(&finding.why), width));
    if !finding.change.is_empty() {
        text.push_str(&table::hanging(
            INDENT,
            &text!("do: {}", "建议：{}", line(&finding.change)),
            width,
        ));
    }
}

/// Returns the place of a finding: a server, or all nodes of a quorum.
fn place_shown(place: &str) -> String {
    match place.strip_suffix(" nodes").filter(|number| number.parse::<usize>().is_ok()) {
        Some(number) => text!("{} nodes", "{} 个节点", number),
        None => place.to_owned(),
    }
}

fn word_shown(severity: Severity) -> String {
    match severity {
        Severity::Problem => text!("problem", "问题"),
        Severity::Warning => text!("warning", "警告"),
        _ => text!("note", "提示"),
    }
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn object(diagnosis: &Diagnosis) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "severity": word(finding.severity).0,
            "id": finding.id,
            "place": finding.place,
            "what": finding.what,
            "why": finding.why,
            "change": finding.change,
        })
    };
    let unseen = |Unseen { place, what, why, .. }: &Unseen| json!({ "place": place, "what": what, "why": why });
    json!({
        "worst": diagnosis.worst().map(|severity| word(severity).0),
        "findings": diagnosis.findings.iter().map(finding).collect::<Vec<_>>(),
        "unseen": diagnosis.unseen.iter().map(unseen).collect::<Vec<_>>(),
    })
}
