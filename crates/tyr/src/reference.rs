//! The generated documents: `docs/errors.md`, `docs/configuration.md`, and `docs/commands.md`, made from what the command
//! itself goes by. A test compares them with the files, so they cannot be wrong for long; `scripts/docs` writes them anew.

mod commands;
mod configuration;
mod errors;

use clap::ValueEnum;

/// A generated document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// `docs/errors.md`
    Errors,
    /// `docs/configuration.md`
    Configuration,
    /// `docs/commands.md`
    Commands,
}

impl Document {
    /// The text of the document.
    pub fn text(self) -> String {
        match self {
            Document::Errors => errors::document(),
            Document::Configuration => configuration::document(),
            Document::Commands => commands::document(),
        }
    }
}

/// A vertical bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_documents_are_what_the_command_says() {
        for document in Document::value_variants() {
            let name = document.to_possible_value().expect("no variant is skipped").get_name().to_owned();
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{name}.md"));
            let there = fs::read_to_string(&path).unwrap_or_default();
            assert!(there == document.text(), "docs/{name}.md is not up to date: run scripts/docs");
        }
    }
}
