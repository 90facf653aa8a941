//! Histories as Elle reads them: one map in EDN per line, list-append or rw-register (docs/simulation.md, "Outside checkers").

use std::{fmt::Write, io};

use super::{
    Action, History, Operation, Outcome, Register,
    events::{Event, Moment, events},
};

impl History {
    /// Writes the operations that append to lists or read them, for Elle's checker `list-append`.
    pub fn write_list_append(&self, to: &mut dyn io::Write) -> io::Result<()> {
        write_events(self, to, |action, answered| match action {
            Action::Append { blob, element, .. } => Some(format!("[:append {} {element}]", blob.0)),
            Action::ReadList { blob, elements } => {
                let elements = elements.as_deref().unwrap_or_default().iter();
                let list = elements.map(u64::to_string).collect::<Vec<_>>().join(" ");
                Some(if answered {
                    format!("[:r {} [{list}]]", blob.0)
                } else {
                    format!("[:r {} nil]", blob.0)
                })
            }
            _ => None,
        })
    }

    /// Writes the operations that read or write registers, for Elle's checker `rw-register`.
    pub fn write_rw_register(&self, to: &mut dyn io::Write) -> io::Result<()> {
        write_events(self, to, |action, answered| match action {
            Action::Write { register, value, .. } => Some(format!("[:w :{} {value}]", keyword(*register))),
            Action::Read { register, value, .. } => {
                let value = value.filter(|_| answered).map_or("nil".to_owned(), |value| value.to_string());
                Some(format!("[:r :{} {value}]", keyword(*register)))
            }
            _ => None,
        })
    }
}

fn keyword(register: Register) -> String {
    format!("{}-{}", register.blob, register.part)
}

fn write_events(
    history: &History,
    to: &mut dyn io::Write,
    told: impl Fn(&Action, bool) -> Option<String>,
) -> io::Result<()> {
    let relevant =
        |operation: &Operation| operation.actions.iter().any(|action| told(action, true).is_some());
    for (index, event) in events(history, relevant).iter().enumerate() {
        let operation = &history.operations()[event.place];
        let answered = event.moment == Moment::Answer && operation.outcome == Outcome::Committed;
        let actions: Vec<String> =
            operation.actions.iter().filter_map(|action| told(action, answered)).collect();
        let mut line = String::new();
        write!(
            line,
            "{{:index {index}, :time {}, :type :{}, :process {}, :f :txn, :value [{}]}}",
            u128::from(event.time) * NANOSECONDS,
            name(event, operation),
            event.process,
            actions.join(" ")
        )
        .expect("a string takes all");
        writeln!(to, "{line}")?;
    }
    Ok(())
}

fn name(event: &Event, operation: &Operation) -> &'static str {
    match (event.moment, operation.outcome) {
        (Moment::Begin, _) => "invoke",
        (Moment::Answer, Outcome::Committed) => "ok",
        (Moment::Answer, Outcome::Conflict) => "fail",
        (Moment::Answer, Outcome::Unknown) => "info",
    }
}

/// In a microsecond.
const NANOSECONDS: u128 = 1000;
