//! What the demonstration says: as it goes for people, as one document at the end for programs.

use serde::Serialize;

use crate::{
    failure::Result,
    output::{Form, Output, Style},
};

/// Collects and prints what is said.
pub struct Tell<'a> {
    out: &'a mut Output,
    steps: Vec<Step>,
}

/// A step of the demonstration.
#[derive(Serialize)]
pub struct Step {
    title: String,
    facts: Vec<String>,
    claims: Vec<Claim>,
}

/// Something that the step is to show.
#[derive(Serialize)]
pub struct Claim {
    claim: String,
    holds: bool,
}

impl<'a> Tell<'a> {
    /// Nothing is said yet.
    pub fn new(out: &'a mut Output) -> Self {
        Tell { out, steps: Vec::new() }
    }

    /// The output, for what else is to be printed.
    pub fn output(&mut self) -> &mut Output {
        self.out
    }

    /// Begins a step.
    pub fn step(&mut self, title: &str) -> Result<()> {
        let heading = format!("{}. {title}", self.steps.len() + 1);
        let heading = self.out.styled(Style::Heading, heading);
        self.steps.push(Step { title: title.to_owned(), facts: Vec::new(), claims: Vec::new() });
        self.line(&heading)
    }

    /// Says what was done.
    pub fn fact(&mut self, fact: String) -> Result<()> {
        self.line(&format!("   {fact}"))?;
        if let Some(step) = self.steps.last_mut() {
            step.facts.push(fact);
        }
        Ok(())
    }

    /// Says whether something is as it should be, and if not, why not.
    pub fn claim(&mut self, claim: String, faults: &[String]) -> Result<()> {
        let holds = faults.is_empty();
        let (mark, style) = if holds { ("✓", Style::Good) } else { ("✗", Style::Bad) };
        let mark =
            if self.out.is_terminal() { self.out.styled(style, mark) } else { plain(holds).to_owned() };
        self.line(&format!("   {mark} {claim}"))?;
        for fault in faults {
            self.line(&format!("       {fault}"))?;
        }
        if let Some(step) = self.steps.last_mut() {
            step.facts.extend(faults.iter().cloned());
            step.claims.push(Claim { claim, holds });
        }
        Ok(())
    }

    /// How many claims there were, and how many of them hold.
    pub fn count(&self) -> (usize, usize) {
        let claims = || self.steps.iter().flat_map(|step| &step.claims);
        (claims().count(), claims().filter(|claim| claim.holds).count())
    }

    /// Everything that was said, and the output back.
    pub fn finish(self) -> (&'a mut Output, Vec<Step>) {
        (self.out, self.steps)
    }

    /// People see it at once, not when a buffer is full.
    fn line(&mut self, text: &str) -> Result<()> {
        if self.out.form() == Form::Json {
            return Ok(());
        }
        self.out.line(text)?;
        self.out.flush()
    }
}

fn plain(holds: bool) -> &'static str {
    if holds { "[ok]" } else { "[FAILED]" }
}
