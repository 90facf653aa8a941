//! Certificates and keys: whether they can be used, by whom they can be read, and until when they are valid.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use tyr_server::{Validity, validities};
use tyr_types::Error;

use super::Finding;
use crate::{
    failure::{Failure, Result},
    server,
    settings::Settings,
};

/// Looks at them.
pub fn examine(settings: &Settings, findings: &mut Vec<Finding>) {
    let tls = &settings.tls;
    if tls.authority.is_none() && tls.certificate.is_none() && tls.key.is_none() {
        findings.push(Finding::skipped("TLS", "no certificates are named; connections are not encrypted"));
        return;
    }
    findings.push(match believed(settings) {
        Ok(found) => Finding::good("TLS", found),
        Err(failure) => Finding::wrong("TLS", failure, "correct the file that it names"),
    });
    let named = [("authority", &tls.authority), ("certificate", &tls.certificate)];
    for (what, path) in named.into_iter().filter_map(|(what, path)| Some((what, path.as_deref()?))) {
        // What cannot be read was told of above.
        for validity in validities(path).unwrap_or_default() {
            findings.push(expiry(what, path, validity, now()));
        }
    }
    if let Some(key) = &tls.key {
        findings.extend(secrecy(key));
    }
}

/// Whether the certificates can be used, and others believe them: those of a node, if one is named.
fn believed(settings: &Settings) -> Result<String> {
    let Some(tls) = settings.tls()? else { return Ok("no certificates are used".to_owned()) };
    let refused = |error: io::Error| Failure::from(Error::invalid(error.to_string()));
    if settings.server.directory.is_none() {
        tls.check().map_err(refused)?;
        return Ok(
            "certificates and key can be used by a client; pass --directory to have them looked at for a node"
                .to_owned(),
        );
    }
    let reached = server::reached(&settings.server)?;
    tls.check_node(&reached).map_err(refused)?;
    Ok(format!("certificates and key can be used by a node that others reach at {reached}"))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn expiry(what: &str, path: &Path, validity: Validity, now: i64) -> Finding {
    let subject = format!("{what} '{}'", path.display());
    let renew = "write a new one to the same file, and send SIGHUP to the nodes";
    let left = (validity.until - now) / DAY;
    match () {
        () if now < validity.from => Finding::wrong(
            subject,
            "it is not valid yet",
            "check this machine's clock; else wait, or use another one",
        ),
        () if now >= validity.until => {
            Finding::wrong(subject, format!("it expired {} days ago", -left), renew)
        }
        () if left < SOON => Finding::warning(subject, format!("it expires in {left} days"), renew),
        () => Finding::good(subject, format!("it is valid for {left} more days")),
    }
}

/// Whether others than its owner and group can read a key.
fn secrecy(key: &Path) -> Option<Finding> {
    let mode = fs::metadata(key).ok()?.permissions().mode() & 0o777;
    let subject = format!("key '{}'", key.display());
    Some(match mode & 0o007 {
        0 => Finding::good(subject, format!("only its owner and group can read it: {mode:o}")),
        _ => Finding::wrong(
            subject,
            format!("every user of this machine can read it: its rights are {mode:o}"),
            "chmod 600, and have a new key and certificate made if others are on this machine",
        ),
    })
}

/// In seconds.
const DAY: i64 = 86_400;
/// What expires in fewer days is to be renewed.
const SOON: i64 = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_expires_is_told_of_before_it_does() {
        let verdict = |from, until| {
            let validity = Validity { from: from * DAY, until: until * DAY };
            expiry("certificate", Path::new("node.pem"), validity, 1000 * DAY).verdict
        };
        assert_eq!(verdict(900, 1031), Verdict::Good);
        assert_eq!(verdict(900, 1029), Verdict::Warning);
        assert_eq!(verdict(900, 1000), Verdict::Wrong);
        assert_eq!(verdict(1001, 2000), Verdict::Wrong);
    }
}
