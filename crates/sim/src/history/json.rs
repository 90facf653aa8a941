//! Histories as lines of JSON: one call or return a line, as Porcupine and scripts want them (docs/simulation.md).

use std::io;

use tyr_types::Number;

use super::{
    Action, History,
    events::{Moment, events},
};

impl History {
    /// Writes every event in order. What was answered is in the returns.
    pub fn write_json_lines(&self, to: &mut dyn io::Write) -> io::Result<()> {
        for event in events(self, |_| true) {
            let operation = &self.operations()[event.place];
            write!(
                to,
                r#"{{"kind":"{}","id":{},"time_us":{},"process":{},"client":{},"transaction":{}"#,
                if event.moment == Moment::Begin { "call" } else { "return" },
                event.place,
                event.time,
                event.process,
                operation.client.0,
                operation.transaction.0
            )?;
            if event.moment == Moment::Answer {
                let actions: Vec<String> = operation.actions.iter().map(shown).collect();
                write!(to, r#","outcome":"{}","actions":[{}]"#, operation.outcome, actions.join(","))?;
            } else {
                let changes = operation.actions.iter().filter(|action| action.changes());
                let actions: Vec<String> = changes.map(asked).collect();
                write!(
                    to,
                    r#","label":"{}","actions":[{}]"#,
                    operation.label.escape_default(),
                    actions.join(",")
                )?;
            }
            writeln!(to, "}}")?;
        }
        Ok(())
    }
}

/// What is asked for, without what the store answers.
fn asked(action: &Action) -> String {
    let mut action = action.clone();
    match &mut action {
        Action::Write { number, .. } | Action::Create { number, .. } | Action::Delete { number, .. } => {
            *number = None;
        }
        Action::Append { offset: answer, .. } | Action::Add { old: answer, .. } => *answer = None,
        Action::Read { .. } | Action::ReadList { .. } | Action::Exists { .. } | Action::Scan { .. } => {}
    }
    shown(&action)
}

fn shown(action: &Action) -> String {
    match action {
        Action::Read { register, value, number } => format!(
            r#"{{"read":[{},{}],"value":{},"number":{}}}"#,
            register.blob.0,
            register.part,
            or_null(*value),
            or_null(raw(*number))
        ),
        Action::Write { register, value, number } => format!(
            r#"{{"write":[{},{}],"value":{value},"number":{}}}"#,
            register.blob.0,
            register.part,
            or_null(raw(*number))
        ),
        Action::ReadList { blob, elements } => {
            let elements = elements.as_ref().map_or("null".to_owned(), |elements| list(elements));
            format!(r#"{{"read_list":{},"elements":{elements}}}"#, blob.0)
        }
        Action::Append { blob, element, offset } => {
            format!(r#"{{"append":{},"element":{element},"offset":{}}}"#, blob.0, or_null(*offset))
        }
        Action::Add { register, operand, old } => format!(
            r#"{{"add":[{},{}],"operand":{operand},"old":{}}}"#,
            register.blob.0,
            register.part,
            or_null(*old)
        ),
        Action::Create { blob, number } => {
            format!(r#"{{"create":{},"number":{}}}"#, blob.0, or_null(raw(*number)))
        }
        Action::Delete { blob, number } => {
            format!(r#"{{"delete":{},"number":{}}}"#, blob.0, or_null(raw(*number)))
        }
        Action::Exists { blob, exists } => format!(r#"{{"exists":{},"there":{exists}}}"#, blob.0),
        Action::Scan { from, to, found } => {
            let found: Vec<u64> = found.iter().map(|blob| blob.0.into()).collect();
            format!(r#"{{"scan":[{},{}],"found":{}}}"#, from.0, to.0, list(&found))
        }
    }
}

fn raw(number: Option<Number>) -> Option<u64> {
    number.map(Number::to_u64)
}

fn or_null(value: Option<u64>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}

fn list(values: &[u64]) -> String {
    let values: Vec<String> = values.iter().map(u64::to_string).collect();
    format!("[{}]", values.join(","))
}
