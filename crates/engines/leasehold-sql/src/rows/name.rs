//! Names of tables and columns, which become part of a statement's text.

use std::fmt;

use leasehold_core::{Error, ErrorKind, Result};

/// The longest name that no database truncates (PostgreSQL's limit), in bytes.
const LONGEST: usize = 63;

/// The name of a table or column; a table may have a schema, as in `shop.stock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifier(String);

impl Identifier {
    /// Checks the name of a table: letters, digits and `_`, not a digit first, at most 63 bytes,
    /// optionally with a schema and a dot in front.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid name.
    pub fn table(name: &str) -> Result<Self> {
        if name.split('.').count() > 2 {
            return Err(refused("table", name));
        }
        name.split('.').try_for_each(|part| check("table", name, part))?;
        Ok(Self(name.to_owned()))
    }

    /// Checks the name of a column; `field` is its name in the error.
    pub(super) fn column(field: &str, name: &str) -> Result<Self> {
        check(field, name, name)?;
        Ok(Self(name.to_owned()))
    }

    /// Returns the name as it is written in a statement.
    pub fn quoted(&self, quote: char) -> String {
        let mut sql = String::new();
        self.quote(quote, &mut sql);
        sql
    }

    pub(super) fn quote(&self, quote: char, sql: &mut String) {
        for (index, part) in self.0.split('.').enumerate() {
            if index > 0 {
                sql.push('.');
            }
            sql.push(quote);
            sql.push_str(part);
            sql.push(quote);
        }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks for letters of any language, digits and `_`: the name can contain no quote.
fn check(field: &str, name: &str, part: &str) -> Result<()> {
    let start = part.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let rest = part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if start && rest && part.len() <= LONGEST { Ok(()) } else { Err(refused(field, name)) }
}

fn refused(field: &str, name: &str) -> Error {
    let short: String = name.chars().take(80).collect();
    let schema =
        if field == "table" { ", optionally with a schema and a dot in front" } else { "" };
    let problem = format!(
        "{field}: {short:?} is not a valid name: use letters, digits and _, not a digit first, {LONGEST} bytes at \
         most{schema}"
    );
    Error::new(ErrorKind::Invalid, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_never_comes_into_a_statement() {
        for bad in [
            "",
            "1a",
            "a b",
            "a;b",
            "a\"b",
            "a`b",
            "a'b",
            "a--",
            "a\0",
            "a\\",
            "a.b.c",
            ".a",
            "a.",
            "stock; DROP TABLE stock",
            "stock\" WHERE 1=1 --",
            "a\u{2019}b",
            "a$b",
            &"a".repeat(64),
        ] {
            let error = Identifier::table(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.message().starts_with("table: "), "{error}");
            let error = Identifier::column("key", bad).unwrap_err();
            assert!(error.message().starts_with("key: "), "{error}");
        }
        assert!(Identifier::column("key", "a.b").is_err());
        for (name, quoted) in
            [("stock", "\"stock\""), ("shop.stock", "\"shop\".\"stock\""), ("库存", "\"库存\"")]
        {
            let mut sql = String::new();
            Identifier::table(name).unwrap().quote('"', &mut sql);
            assert_eq!(sql, quoted);
        }
    }
}
