//! The one way out: everything that a verb prints goes through [`Output`], either as text for people or as JSON.
//!
//! Results go to standard output, what concerns the run itself (warnings, failures, questions) to standard error. A
//! reader that has gone away becomes [`Failure::BrokenPipe`], which ends the process without a word.

mod table;
mod text;

use std::{
    fmt::Display,
    io::{self, BufWriter, IsTerminal, StdoutLock, Write},
    mem,
};

use serde::Serialize;
use serde_json::json;

pub use table::{Align, Table};
pub use text::{Bytes, Shown, bytes_field, key_fields};

use crate::{
    failure::{Failure, Result},
    log,
};

/// Where results are printed, and how.
pub struct Output {
    form: Form,
    chatter: Chatter,
    color: bool,
    out: BufWriter<StdoutLock<'static>>,
}

/// For whom results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Human,
    /// One JSON document for programs.
    Json,
}

/// Whether to print what was done, besides what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chatter {
    /// Notes, summaries, and progress bars.
    Normal,
    /// Results and failures only.
    Quiet,
}

/// When to color text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a verb has to say: the same facts as JSON and as text.
pub trait Report: Serialize {
    /// Prints the facts for people.
    fn print(&self, out: &mut Output) -> Result<()>;
}

impl Output {
    /// Takes standard output.
    pub fn new(form: Form, chatter: Chatter, color: ColorChoice) -> Self {
        let color = colored(color, io::stdout().is_terminal());
        Output { form, chatter, color, out: BufWriter::new(io::stdout().lock()) }
    }

    /// For whom results are printed.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Whether a progress bar is welcome: people are watching, and did not ask for silence.
    pub fn shows_progress(&self) -> bool {
        self.form == Form::Human && self.chatter == Chatter::Normal && io::stderr().is_terminal()
    }

    /// Whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Prints the report in the form that was asked for.
    pub fn report(&mut self, report: &impl Report) -> Result<()> {
        match self.form {
            Form::Human => report.print(self),
            Form::Json => self.json(report),
        }
    }

    /// Prints a report that only says that something was done: nothing when quiet.
    pub fn done(&mut self, report: &impl Report) -> Result<()> {
        if self.form == Form::Human && self.chatter == Chatter::Quiet {
            return Ok(());
        }
        self.report(report)
    }

    /// Prints a line of text.
    pub fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.out, "{text}").map_err(stdout_failure)
    }

    /// Prints bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(stdout_failure)
    }

    /// Prints a value as one line of JSON.
    pub fn json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<()> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| stdout_failure(error.into()))?;
        self.bytes(b"\n")
    }

    /// Sends everything printed so far on its way.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(stdout_failure)
    }

    /// Forgets what was printed and could not be sent, so that nobody tries again.
    pub fn discard(&mut self) {
        let unsent = mem::replace(&mut self.out, BufWriter::new(io::stdout().lock()));
        let _unsent = unsent.into_parts();
    }

    /// The text in the style, if this output is colored.
    pub fn styled(&self, style: Style, text: impl Display) -> String {
        paint(self.color, style, text)
    }

    /// How to say on standard error that something is not as it should be, from any thread.
    pub fn warnings(&self) -> Warnings {
        Warnings { form: self.form }
    }
}

/// Says on standard error that something is not as it should be, and that the run goes on.
#[derive(Clone, Copy)]
pub struct Warnings {
    form: Form,
}

impl Warnings {
    /// Says it.
    pub fn say(self, message: impl Display) {
        tell(&match self.form {
            Form::Human => format!("warning: {message}"),
            Form::Json => json!({ "warning": { "message": message.to_string() } }).to_string(),
        });
    }
}

/// Prints why the run failed to standard error. Nothing is printed if nobody reads.
pub fn print_failure(form: Form, color: ColorChoice, failure: &Failure) {
    match (form, failure) {
        (_, Failure::BrokenPipe | Failure::Told(_)) => {}
        (Form::Human, _) => {
            let label = paint(colored(color, io::stderr().is_terminal()), Style::Bad, "error:");
            tell(&format!("{label} {}", harmless(&failure.to_string())));
        }
        (Form::Json, _) => {
            tell(&json!({ "error": { "kind": failure.kind(), "message": failure.to_string() } }).to_string())
        }
    }
}

/// A text in which nothing is left that a terminal takes for more than a letter: keys and names may have anything in them.
fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() && !matches!(letter, '\n' | '\t') {
            true => harmless.extend(letter.escape_default()),
            false => harmless.push(letter),
        }
    }
    harmless
}

/// Prints the prompt to standard error and reads a line from standard input; `None` at its end.
pub fn ask(prompt: &str) -> Result<Option<String>> {
    let mut stderr = io::stderr().lock();
    let told = stderr.write_all(prompt.as_bytes()).and_then(|()| stderr.flush());
    told.map_err(|error| Failure::local("cannot ask on standard error", &error))?;
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    let bytes = read.map_err(|error| Failure::local("cannot read standard input", &error))?;
    Ok((bytes > 0).then(|| line.trim().to_owned()))
}

/// A meaning that color may carry; never the only carrier of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// A heading.
    Heading,
}

fn colored(choice: ColorChoice, terminal: bool) -> bool {
    let refused = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && !refused(),
    }
}

fn paint(color: bool, style: Style, text: impl Display) -> String {
    if !color {
        return text.to_string();
    }
    let code = match style {
        Style::Good => "32",
        Style::Bad => "31",
        Style::Heading => "1",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Standard error is the last resort: if it is closed there is nowhere left to complain.
fn tell(line: &str) {
    if log::say(line) {
        return;
    }
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn stdout_failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::local("cannot write to standard output", &error),
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn a_terminal_is_told_nothing_but_letters() {
        assert_eq!(
            harmless("no blob 'e\u{1b}[31mr\0\u{9b}'\n\tü"),
            "no blob 'e\\u{1b}[31mr\\u{0}\\u{9b}'\n\tü"
        );
    }
}
