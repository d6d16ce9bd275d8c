//! `leasehold lab`: stories of failing locks, stale caches, read-write locks and semaphores, and the table of what fails where.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use leasehold::StoreUrl;
use leasehold_sim::lab::{
    self, CacheStory, Cell, Language, Practice, PrimitiveStory, Story, Text, cache_stories,
    primitive_stories, stories,
};
use leasehold_sim::simulator::Setup;
use serde_json::json;

use crate::cli::LabArgs;
use crate::failure::Failure;
use crate::lang::Lang;
use crate::output::{self, Voice};
use crate::{table, terminal};

/// What can be asked for besides a story.
const OTHERS: [&str; 3] = ["list", "matrix", "walk-through"];

/// How many names a question offers at most.
const MOST_NAMES: usize = 8;

/// Plays a story or the matrix, or lists all of them.
pub(crate) fn lab(args: &LabArgs, voice: Voice, lang: Lang) -> Result<u8, Failure> {
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
        "matrix" => matrix(args, voice, spoken(lang)),
        "list" if args.json => list_objects(),
        "list" => list(lang),
        "walk-through" => walk(lang),
        name => tell(name, args, voice, lang),
    }
}

/// The language in the lab's own terms.
fn spoken(lang: Lang) -> Language {
    lang.pick(Language::English, Language::Chinese)
}

fn list_objects() -> Result<u8, Failure> {
    let stories = stories().map(|story| {
        json!({
            "story": story.name,
            "setup": story.setup().name(),
            "setups": names(story.setups),
            "about": story.about.in_language(Language::English),
        })
    });
    let practices = Practice::ALL.map(Practice::name);
    let practised = practised().map(|(name, about)| {
        json!({
            "story": name,
            "setup": practices[0],
            "setups": practices,
            "about": about.in_language(Language::English),
        })
    });
    let setup = |name: &str, about: &str| json!({ "setup": name, "about": about });
    let setups = Setup::ALL.map(|one| setup(one.name(), one.about()));
    let practices = Practice::ALL.map(|one| setup(one.name(), one.about(Language::English)));
    let all = stories.chain(practised).chain(setups).chain(practices);
    output::answer(all.map(|object| format!("{object}\n")).collect::<String>())?;
    Ok(0)
}

/// The stories that are played by recipe and with Leasehold.
fn practised() -> impl Iterator<Item = (&'static str, Text)> {
    let caches = cache_stories().iter().map(|story| (story.name, story.about));
    caches.chain(primitive_stories().iter().map(|story| (story.name, story.about)))
}

fn list(lang: Lang) -> Result<u8, Failure> {
    let language = spoken(lang);
    let row = |name: &str, setup: &str, about: &str| [name, setup, about].map(str::to_owned);
    let mut rows = vec![match lang {
        Lang::English => row("STORY", "SET-UP", "WHAT HAPPENS"),
        Lang::Chinese => row("故事", "部署", "发生什么"),
    }];
    rows.extend(
        stories()
            .map(|story| row(story.name, story.setup().name(), story.about.in_language(language))),
    );
    rows.extend(
        practised()
            .map(|(name, about)| row(name, Practice::Recipe.name(), about.in_language(language))),
    );
    rows.push(row(
        "walk-through",
        "",
        lang.pick(
            "3, 5, 6 nodes, one to three of them away: which client gets a lock",
            "3、5、6 个节点，其中一到三个不可用：哪个客户端能获得锁",
        ),
    ));
    rows.push(row(
        "matrix",
        "",
        lang.pick(
            "what every set-up does under every kind of fault, counted",
            "每种部署在每种故障下的表现，用数字统计",
        ),
    ));
    let heads = lang.pick(["SET-UP", "WHAT IT IS"], ["部署", "说明"]);
    let mut setups = vec![heads.map(str::to_owned)];
    setups.extend(
        Setup::ALL.map(|setup| [setup.name(), lab::about(setup, language)].map(str::to_owned)),
    );
    setups.extend(Practice::ALL.map(|one| [one.name(), one.about(language)].map(str::to_owned)));
    let width = terminal::width(io::stdout());
    output::answer(format!(
        "{}\n{}\n{}\n",
        table::wrapped(&rows, width),
        table::wrapped(&setups, width),
        lang.pick(
            "Play one: leasehold lab gc-pause [--setup SET-UP] [--svg FILE]",
            "重演一个：leasehold lab gc-pause [--setup 部署] [--svg 文件]",
        )
    ))?;
    Ok(0)
}

fn walk(lang: Lang) -> Result<u8, Failure> {
    let (before, after) = lang.pick(
        (
            "A client holds a lock on a majority of the nodes; some of them go down, or restart empty. \
             Can another client get the same lock, or another lock?",
            "A lock is safe as long as fewer nodes forget than it takes to make a majority of those that \
             never knew it; with admission, nodes that may have lost it cannot vote until the lease has \
             ended.",
        ),
        (
            "一个客户端在多数节点上持有锁；其中一些节点宕机，或清空后重启。另一个客户端能获得同一把锁，或另一把锁吗？",
            "只要丢失数据的节点加上原本不知道这把锁的节点不到多数，锁就是安全的；有准入时，可能丢了数据的节点\
             在租约结束之前不能投票。",
        ),
    );
    let width = terminal::width(io::stdout()).unwrap_or(100);
    let text = |text| table::hanging("", text, Some(width));
    let rows = lab::walked(&lab::walk(), spoken(lang));
    output::answer(format!("{}\n{rows}\n{}", text(before), text(after)))?;
    Ok(0)
}

fn tell(name: &str, args: &LabArgs, voice: Voice, lang: Lang) -> Result<u8, Failure> {
    if let Some(story) = CacheStory::find(name) {
        return tell_of_cache(story, args, voice, lang);
    }
    if let Some(story) = PrimitiveStory::find(name) {
        return tell_of_primitive(story, args, voice, lang);
    }
    let story = Story::find(name).ok_or_else(|| unknown(name))?;
    let setup = match &args.setup {
        None => story.setup(),
        Some(name) => find(name)?,
    };
    if !story.setups.contains(&setup) {
        return Err(not_there(story.name, setup.name(), &names(story.setups)));
    }
    let language = spoken(lang);
    let tale = story.play(setup, args.seed.unwrap_or(1));
    let about = story.about.in_language(language);
    let story_text = StoryText {
        name,
        about,
        place: tale.place(language),
        lines: tale.lines(language),
        moral: tale.moral(language),
    };
    output::answer(story_text.text(lang))?;
    draw(args.svg.as_deref(), voice, || lab::draw(&tale, language))?;
    Ok(0)
}

fn tell_of_cache(
    story: &'static CacheStory,
    args: &LabArgs,
    voice: Voice,
    lang: Lang,
) -> Result<u8, Failure> {
    let (language, practice) = (spoken(lang), practice(story.name, args)?);
    let tale = story.play(practice, args.seed.unwrap_or(1));
    let story_text = StoryText {
        name: story.name,
        about: story.about.in_language(language),
        place: place(practice, tale.place(language), lang),
        lines: tale.lines(language),
        moral: tale.moral(language),
    };
    output::answer(story_text.text(lang))?;
    draw(args.svg.as_deref(), voice, || lab::draw_cache(&tale, language))?;
    Ok(0)
}

fn tell_of_primitive(
    story: &'static PrimitiveStory,
    args: &LabArgs,
    voice: Voice,
    lang: Lang,
) -> Result<u8, Failure> {
    let (language, practice) = (spoken(lang), practice(story.name, args)?);
    let tale = story.play(practice, args.seed.unwrap_or(1));
    let story_text = StoryText {
        name: story.name,
        about: story.about.in_language(language),
        place: place(practice, tale.place(language), lang),
        lines: tale.lines(language),
        moral: tale.moral(language),
    };
    output::answer(story_text.text(lang))?;
    draw(args.svg.as_deref(), voice, || lab::draw_primitive(&tale, language))?;
    Ok(0)
}

/// The practice that was asked for; by default the recipe.
fn practice(story: &str, args: &LabArgs) -> Result<Practice, Failure> {
    let given = args.setup.as_deref().unwrap_or(Practice::Recipe.name());
    let found = Practice::ALL.into_iter().find(|practice| practice.name() == given);
    found.ok_or_else(|| not_there(story, given, &Practice::ALL.map(Practice::name)))
}

/// How a story is played, as its second line.
fn place(practice: Practice, how: &str, lang: Lang) -> String {
    lang.pick(format!("with {practice}: {how}"), format!("部署 {practice}：{how}"))
}

/// A story that was played, for a terminal.
struct StoryText<'a> {
    name: &'a str,
    about: &'a str,
    place: String,
    lines: Vec<(u64, String)>,
    moral: String,
}

impl StoryText<'_> {
    fn text(&self, lang: Lang) -> String {
        let width = terminal::width(io::stdout());
        let head = format!("{}{}", self.name, lang.pick(": ", "："));
        let mut text = table::hanging(&head, self.about, width);
        text += &table::hanging("", &self.place, width);
        text += "\n";
        for (time, line) in &self.lines {
            let (indent, line) = line.split_at(line.len() - line.trim_start().len());
            text += &table::hanging(&(lab::stamp(*time, spoken(lang)) + indent), line, width);
        }
        text += "\n";
        text + &table::hanging("", &self.moral, width)
    }
}

/// A story is not played on this set-up.
fn not_there(story: &str, setup: &str, known: &[&'static str]) -> Failure {
    let known_names = known.join(", ");
    let failure = Failure::own(format!(
        "lab {story}: cannot be played on {setup}; it is played on {known_names}"
    ));
    match question(setup, known.iter().copied()) {
        Some(question) => failure.next(question),
        None => failure,
    }
}

/// Asks for the name that was meant: the most similar one, or those that contain what was typed.
/// `None` if there is none, or too many.
fn question<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let typed = typed.to_lowercase();
    let near = StoreUrl::nearest(&typed, names.iter().copied());
    let has_part = |name: &&str| !typed.is_empty() && name.contains(&typed);
    let parts: Vec<&str> = match near {
        Some(name) => vec![name],
        None => names.into_iter().filter(has_part).collect(),
    };
    match parts[..] {
        [name] => Some(format!("did you mean {name:?}?")),
        [] => None,
        ref several if several.len() > MOST_NAMES => None,
        ref several => Some(format!("did you mean one of {}?", several.join(", "))),
    }
}

pub(crate) fn unknown(name: &str) -> Failure {
    let practised = practised().map(|(name, _)| name);
    let names = stories().map(|story| story.name).chain(practised).chain(OTHERS);
    let failure = Failure::own(format!("lab {name:?}: there is no such story"));
    failure.next(match question(name, names) {
        Some(question) => format!("{question} List them: leasehold lab list"),
        None => "list them: leasehold lab list".to_owned(),
    })
}

fn names(setups: &[Setup]) -> Vec<&'static str> {
    setups.iter().map(|setup| setup.name()).collect()
}

fn matrix(args: &LabArgs, voice: Voice, language: Language) -> Result<u8, Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let cells = lab::matrix(args.seeds.unwrap_or(100), threads);
    let text = match (args.json, args.markdown) {
        (true, _) => cells.iter().map(|cell| format!("{}\n", object(cell))).collect(),
        (_, true) => lab::markdown(&cells),
        _ => {
            let width = terminal::width(io::stdout()).unwrap_or(100);
            let legend = table::hanging("", lab::legend(language), Some(width));
            format!("{}\n{legend}", lab::table(&cells, language))
        }
    };
    output::answer(text)?;
    draw(args.svg.as_deref(), voice, || lab::matrix_picture(&cells, language))?;
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

pub(crate) fn find(name: &str) -> Result<Setup, Failure> {
    Setup::ALL.into_iter().find(|setup| setup.name() == name).ok_or_else(|| {
        let known = names(&Setup::ALL).join(", ");
        let failure =
            Failure::own(format!("--setup {name:?}: there is no such set-up; there are {known}"));
        match question(name, names(&Setup::ALL)) {
            Some(question) => failure.next(question),
            None => failure,
        }
    })
}

fn draw(file: Option<&Path>, voice: Voice, picture: impl Fn() -> String) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    fs::write(file, picture())
        .map_err(|error| Failure::own(format!("--svg {}: {error}", file.display())))?;
    voice.detail(&format!("the picture is in {}", file.display()));
    Ok(())
}
