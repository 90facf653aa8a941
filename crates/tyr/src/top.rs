//! `tyr top`: the whole cluster in a terminal, as a node gathers it for its console.

mod frame;
mod screen;
mod view;

use std::time::{Duration, Instant};

use clap::Args;
use tyr_server::{Operator, ViewOf};
use tyr_types::Error;

use crate::{
    amount::number,
    cluster::operator,
    failure::Result,
    interrupt::Interrupt,
    output::{Form, Output, Style},
    settings::Settings,
};

use frame::{Line, frame};
use screen::{Key, Screen};
use view::View;

/// The arguments of `tyr top`.
#[derive(Args)]
pub struct Top {
    /// Look again after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = number(1..=3600))]
    every: u64,
    /// Print once, as text, also on a terminal.
    #[arg(long)]
    once: bool,
}

impl Top {
    /// Shows it.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let mut operator = operator(settings)?;
        if out.form() == Form::Json {
            let text = operator.view(ViewOf::Cluster)?;
            return out.line(text);
        }
        if self.once || !out.is_terminal() {
            let view = look(&mut operator)?;
            return print(&frame(&view), out);
        }
        self.watch(&mut operator, out)
    }

    /// Shows it until somebody asks to stop.
    fn watch(&self, operator: &mut Operator, out: &mut Output) -> Result<()> {
        let interrupt = Interrupt::install()?;
        // The first look fails as any other command does.
        let mut lines = frame(&look(operator)?);
        let screen = Screen::enter()?;
        while !interrupt.is_asked() {
            screen.show(&lines, out)?;
            let next = Instant::now() + Duration::from_secs(self.every);
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                match screen.key(left.min(GLANCE)) {
                    Some(Key::Quit) => return Ok(()),
                    Some(Key::Other) => break,
                    None if interrupt.is_asked() => return Ok(()),
                    None => {}
                }
            }
            match look(operator) {
                Ok(view) => lines = frame(&view),
                // What was seen last stays, and it is said that it is old.
                Err(failure) => {
                    let head = Line::styled(Style::Bad, format!("what follows is old: {failure}"));
                    lines.retain(|line| !line.text.starts_with("what follows is old"));
                    lines.insert(0, head);
                }
            }
        }
        Ok(())
    }
}

fn look(operator: &mut Operator) -> tyr_types::Result<View> {
    let text = operator.view(ViewOf::Cluster)?;
    let other = |_| {
        Error::internal(
            "a node shows something that this command does not understand; is it of another version?",
        )
    };
    let view: View = serde_json::from_str(&text).map_err(other)?;
    match view.version {
        VERSION => Ok(view),
        version => Err(Error::invalid(format!(
            "the node shows version {version} of what there is to see, and this command knows {VERSION}; use a 'tyr' of the node's version"
        ))),
    }
}

fn print(lines: &[Line], out: &mut Output) -> Result<()> {
    for line in lines {
        let text = line.style.map_or_else(|| line.text.clone(), |style| out.styled(style, &line.text));
        out.line(text)?;
    }
    Ok(())
}

/// The version of the view that is understood.
const VERSION: u32 = 1;
/// A signal is looked for this often.
const GLANCE: Duration = Duration::from_millis(200);
