//! `leasehold init`: creates the tables of a store that needs some.

use crate::advice::Advice;
use crate::cli::{Globals, InitArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::lang::text;
use crate::locate;
use crate::output::{self, Voice};

/// Creates what is missing, or prints how to create it.
pub(crate) async fn init(args: &InitArgs, globals: &Globals, voice: Voice) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let located = locate::store_url(globals.store.as_deref(), &config)?;
    let (url, failed) = (&located.url, |error| Advice::for_store(&located).on(error));
    if args.print {
        let statements = leasehold::init_statements(url).map_err(failed)?;
        let text: String = statements.iter().map(|statement| format!("{statement};\n")).collect();
        output::answer(text)?;
        return Ok(0);
    }
    match leasehold::init(url).await.map_err(failed)? {
        true => voice.note(&text!("the tables exist", "表已存在")),
        false => voice.note(&text!("this store needs no tables", "这种存储不需要表")),
    }
    Ok(0)
}
