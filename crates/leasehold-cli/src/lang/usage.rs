//! What is wrong with a command line, in the language of this process.

use clap::Error;
use clap::error::{ContextKind, ErrorKind};

use super::{Lang, lang, told};

/// Describes the error; the next step is part of the text.
pub(crate) fn usage(error: &Error) -> String {
    match lang() {
        Lang::English => english(error),
        Lang::Chinese => chinese(error).unwrap_or_else(|| english(error)),
    }
}

fn english(error: &Error) -> String {
    let text = error.to_string();
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

/// None for kinds that this command line does not cause.
fn chinese(error: &Error) -> Option<String> {
    let value = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (argument, given) = (value(ContextKind::InvalidArg), value(ContextKind::InvalidValue));
    let mut text = match error.kind() {
        ErrorKind::UnknownArgument => format!("不认识的参数 {argument}"),
        ErrorKind::InvalidSubcommand => {
            format!("不认识的子命令 {}", value(ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingSubcommand => {
            format!("缺少子命令；有 {}", value(ContextKind::ValidSubcommand))
        }
        ErrorKind::MissingRequiredArgument => format!("缺少参数 {argument}"),
        ErrorKind::ArgumentConflict => match value(ContextKind::PriorArg) {
            other if other == argument => format!("{argument} 只能写一次"),
            other if other.is_empty() => format!("{argument} 不能与其他选项一起使用"),
            other => format!("{argument} 不能与 {other} 一起使用"),
        },
        ErrorKind::InvalidValue if given.is_empty() => format!("{argument} 需要一个值"),
        ErrorKind::InvalidValue => {
            format!("{argument} 的值 {given:?} 无效；可选：{}", value(ContextKind::ValidValue))
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            format!("{argument} 的值 {given:?} 无效：{}", told(&why))
        }
        ErrorKind::TooManyValues => format!("{argument} 多了一个值 {given:?}"),
        _ => return None,
    };
    for similar in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
        if let Some(known) = error.get(similar) {
            text.push_str(&format!("\n\n您是不是想写 {known}？"));
        }
    }
    if let Some(tip) =
        error.get(ContextKind::Suggested).filter(|_| error.kind() == ErrorKind::UnknownArgument)
    {
        text.push_str(&format!("\n\n{tip}"));
    }
    text.push_str("\n\n更多信息见 --help");
    Some(text)
}
