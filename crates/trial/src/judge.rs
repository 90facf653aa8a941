//! Judges a history: by plain accounting, by the checkers of the simulator, and by a program that others wrote.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    process::Command,
};

use tyr_sim::{History, check};

use crate::{
    accounting,
    failure::{Failure, Result},
    report::say,
};

/// Judges a history whose operations from `last` on are the last reads. It is written to a file for the outside checker.
pub fn judge(history: &History, last: usize, file: &Path, checker: Option<&Path>) -> Result<()> {
    let account = accounting::check(history, last)?;
    say(format!(
        "account: {} appends and {} counters are as they were told",
        account.appends, account.counters
    ));
    let mut lines = BufWriter::new(File::create(file)?);
    history.write_json_lines(&mut lines)?;
    lines.flush()?;
    check::general(history).map_err(|violation| Failure::new(violation.to_string()))?;
    say("strictly serializable, says the graph of dependencies");
    let Some(checker) = checker else {
        say("NOT CHECKED by an outside checker: none was named");
        return Ok(());
    };
    let output = Command::new(checker).arg(file).output().map_err(|error| {
        Failure::from(error).while_doing(format_args!("the outside checker {}", checker.display()))
    })?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() {
        true => say(format!("outside checker: {said}")),
        false => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("the outside checker: {}: {said}\n{complaint}", output.status)));
        }
    }
    Ok(())
}
