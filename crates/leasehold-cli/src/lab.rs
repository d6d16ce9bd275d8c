//! `leasehold lab`: the stories of locks that fail, and the table of what fails where.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use leasehold_sim::lab::{self, Cell, STORIES, Story};
use leasehold_sim::simulator::Setup;
use serde_json::json;

use crate::cli::LabArgs;
use crate::failure::Failure;
use crate::output::{self, Voice};
use crate::{table, terminal};

/// Plays a story or the matrix, or lists all of them.
pub(crate) fn lab(args: &LabArgs, voice: Voice) -> Result<u8, Failure> {
    let given = [
        ("--setup", args.setup.is_some()),
        ("--seed", args.seed.is_some()),
        ("--seeds", args.seeds.is_some()),
        ("--svg", args.svg.is_some()),
        ("--json", args.json),
        ("--markdown", args.markdown),
    ];
    let known: &[&str] = match args.story.as_str() {
        "matrix" => &["--seeds", "--svg", "--json", "--markdown"],
        "list" => &["--json"],
        "walk-through" => &[],
        _ => &["--setup", "--seed", "--svg"],
    };
    if let Some((option, _)) = given.iter().find(|(name, is)| *is && !known.contains(name)) {
        let known = if known.is_empty() { "no option".to_owned() } else { known.join(", ") };
        return Err(Failure::own(format!("lab {}: takes {known}, not {option}", args.story)));
    }
    match args.story.as_str() {
        "matrix" => matrix(args, voice),
        "list" if args.json => list_objects(),
        "list" => list(),
        "walk-through" => walk(),
        name => tell(name, args, voice),
    }
}

fn list_objects() -> Result<u8, Failure> {
    let stories = STORIES.iter().map(
        |story| json!({ "story": story.name, "setup": story.setup.name(), "about": story.about }),
    );
    let setups = Setup::ALL.map(|setup| json!({ "setup": setup.name(), "about": setup.about() }));
    output::answer(stories.chain(setups).map(|object| format!("{object}\n")).collect::<String>())?;
    Ok(0)
}

fn list() -> Result<u8, Failure> {
    let row = |name: &str, setup: &str, about: &str| [name, setup, about].map(str::to_owned);
    let mut rows = vec![row("STORY", "SET-UP", "WHAT HAPPENS")];
    rows.extend(STORIES.iter().map(|story| row(story.name, story.setup.name(), story.about)));
    let mut setups = vec![["SET-UP", "WHAT IT IS"].map(str::to_owned)];
    setups.extend(Setup::ALL.map(|setup| [setup.name(), setup.about()].map(str::to_owned)));
    rows.push(row("walk-through", "", "3, 5, 6 nodes, one to three of them away: who gets a lock"));
    rows.push(row("matrix", "", "every set-up under every kind of fault"));
    let width = terminal::width(io::stdout());
    output::answer(format!(
        "{}\n{}",
        table::wrapped(&rows, width),
        table::wrapped(&setups, width)
    ))?;
    Ok(0)
}

fn walk() -> Result<u8, Failure> {
    output::answer(format!(
        "A client holds a lock on a majority of the nodes; some of them go down, or restart empty.\n\
         Can another client get the same lock, or another lock?\n\n{}\n\
         A lock is safe as long as fewer nodes forget than it takes to make a majority of those that\n\
         never knew it; with admission, nodes that may have lost it cannot vote until the lease has ended.\n",
        lab::walked(&lab::walk())
    ))?;
    Ok(0)
}

fn tell(name: &str, args: &LabArgs, voice: Voice) -> Result<u8, Failure> {
    let story = Story::find(name).ok_or_else(|| {
        Failure::own(format!("lab {name:?}: there is no such story"))
            .next("list them: leasehold lab list")
    })?;
    let setup = match &args.setup {
        None => story.setup,
        Some(name) => find(name)?,
    };
    let tale = story.play(setup, args.seed.unwrap_or(1));
    output::answer(format!(
        "{}: {}\non {setup}: {}; ttl {} s\n\n{}\n{}\n",
        story.name,
        story.about,
        setup.about(),
        tale.plan.ttl.as_secs(),
        tale.timeline(),
        tale.moral()
    ))?;
    draw(args.svg.as_deref(), voice, || lab::draw(&tale))?;
    Ok(0)
}

fn matrix(args: &LabArgs, voice: Voice) -> Result<u8, Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let cells = lab::matrix(args.seeds.unwrap_or(100), threads);
    let text = match (args.json, args.markdown) {
        (true, _) => cells.iter().map(|cell| format!("{}\n", object(cell))).collect(),
        (_, true) => lab::markdown(&cells),
        _ => lab::table(&cells),
    };
    output::answer(text)?;
    draw(args.svg.as_deref(), voice, || lab::matrix_picture(&cells))?;
    let broken: u64 = cells.iter().map(|cell| cell.broken).sum();
    Ok(u8::from(broken > 0))
}

fn object(cell: &Cell) -> serde_json::Value {
    json!({
        "setup": cell.setup.name(),
        "trouble": cell.trouble.name(),
        "runs": cell.runs,
        "holds": cell.holds,
        "overlaps": cell.overlaps,
        "lost": cell.lost_plain,
        "lost_fenced": cell.lost_fenced,
        "stale_taken": cell.stale,
        "token_inversions": cell.inversions,
        "gap_ms": cell.gap_ms,
        "exclusion_promised": cell.exclusive(),
        "broken": cell.broken,
    })
}

fn find(name: &str) -> Result<Setup, Failure> {
    Setup::ALL.into_iter().find(|setup| setup.name() == name).ok_or_else(|| {
        let known = Setup::ALL.map(Setup::name).join(", ");
        Failure::own(format!("--setup {name:?}: there is no such set-up; there are {known}"))
    })
}

fn draw(file: Option<&Path>, voice: Voice, picture: impl Fn() -> String) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    fs::write(file, picture())
        .map_err(|error| Failure::own(format!("--svg {}: {error}", file.display())))?;
    voice.detail(&format!("the picture is in {}", file.display()));
    Ok(())
}
