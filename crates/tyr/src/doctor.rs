//! `tyr doctor`: looks at an installation, and says what is wrong and what to do.
//!
//! It changes nothing but for a file that it writes in each directory to see how fast that is, and removes. It needs no node that runs, and
//! says what it has not looked at.

mod certificates;
mod cluster;
mod directory;
mod machine;

use std::fmt::Display;

use clap::Args;
use serde::Serialize;

use crate::{
    failure::{Failure, Result},
    output::{Form, Output, Report, Style},
    settings::Settings,
};

/// `tyr doctor`, which takes nothing but settings.
#[derive(Args)]
pub struct Doctor;

/// What was found.
#[derive(Debug, Serialize)]
struct Finding {
    /// What was looked at.
    subject: String,
    verdict: Verdict,
    /// How it is.
    found: String,
    /// What to do, if something is to be done.
    advice: Option<String>,
}

/// What is to be thought of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// It was not looked at.
    Skipped,
    /// As it should be.
    Good,
    /// It works, and could be better, or will not work for long.
    Warning,
    /// It does not work, or loses what it promises to keep.
    Wrong,
}

impl Finding {
    fn new(verdict: Verdict, subject: impl Display, found: impl Display) -> Self {
        Finding { subject: subject.to_string(), verdict, found: found.to_string(), advice: None }
    }

    fn good(subject: impl Display, found: impl Display) -> Self {
        Finding::new(Verdict::Good, subject, found)
    }

    fn skipped(subject: impl Display, found: impl Display) -> Self {
        Finding::new(Verdict::Skipped, subject, found)
    }

    fn warning(subject: impl Display, found: impl Display, advice: impl Display) -> Self {
        Finding { advice: Some(advice.to_string()), ..Finding::new(Verdict::Warning, subject, found) }
    }

    fn wrong(subject: impl Display, found: impl Display, advice: impl Display) -> Self {
        Finding { advice: Some(advice.to_string()), ..Finding::new(Verdict::Wrong, subject, found) }
    }
}

#[derive(Serialize)]
struct Findings {
    wrong: usize,
    warnings: usize,
    findings: Vec<Finding>,
}

impl Doctor {
    /// Looks, and fails if something is wrong.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let mut findings = Vec::new();
        machine::examine(settings, &mut findings);
        directory::examine(settings, &mut findings);
        certificates::examine(settings, &mut findings);
        cluster::examine(settings, &mut findings);
        let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        let (wrong, warnings) = (count(Verdict::Wrong), count(Verdict::Warning));
        out.report(&Findings { wrong, warnings, findings })?;
        match wrong {
            0 => Ok(()),
            1 => Err(Failure::Local("1 thing is wrong".to_owned())),
            _ => Err(Failure::Local(format!("{wrong} things are wrong"))),
        }
    }
}

impl Report for Findings {
    fn print(&self, out: &mut Output) -> Result<()> {
        for Finding { subject, verdict, found, advice } in &self.findings {
            let word = match verdict {
                Verdict::Skipped => "skipped".to_owned(),
                Verdict::Good => out.styled(Style::Good, "good   "),
                Verdict::Warning => out.styled(Style::Heading, "warning"),
                Verdict::Wrong => out.styled(Style::Bad, "WRONG  "),
            };
            out.line(format!("{word}  {subject}: {found}"))?;
            if let Some(advice) = advice {
                out.line(format!("         {advice}"))?;
            }
        }
        if out.form() == Form::Human && self.wrong + self.warnings == 0 {
            out.line("all is well")?;
        }
        Ok(())
    }
}

/// Microseconds for people.
fn micros(micros: u128) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}
