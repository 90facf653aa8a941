//! `tyr version`: which build this is.

use serde::Serialize;

use crate::{
    failure::Result,
    output::{Output, Report, Table},
};

/// Facts about this build. What the build did not know is absent.
#[derive(Serialize)]
pub struct Version {
    version: &'static str,
    commit: Option<&'static str>,
    rustc: Option<&'static str>,
    target: Option<&'static str>,
    profile: Option<&'static str>,
    features: Vec<&'static str>,
}

impl Version {
    /// The facts about the build that is running.
    pub fn this() -> Self {
        let known = |fact: &'static str| (!fact.is_empty()).then_some(fact);
        Version {
            version: env!("CARGO_PKG_VERSION"),
            commit: known(env!("TYR_BUILD_COMMIT")),
            rustc: known(env!("TYR_BUILD_RUSTC")),
            target: known(env!("TYR_BUILD_TARGET")),
            profile: known(env!("TYR_BUILD_PROFILE")),
            features: known(env!("TYR_BUILD_FEATURES"))
                .map_or(Vec::new(), |names| names.split(',').collect()),
        }
    }
}

impl Report for Version {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("tyr {}", self.version))?;
        let mut table = Table::new([]);
        let facts = [
            ("commit", self.commit),
            ("compiler", self.rustc),
            ("target", self.target),
            ("profile", self.profile),
        ];
        for (name, fact) in facts {
            table.row([name.to_owned(), fact.unwrap_or("unknown").to_owned()]);
        }
        let features = if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") };
        table.row(["features".to_owned(), features]);
        table.print(out)
    }
}
