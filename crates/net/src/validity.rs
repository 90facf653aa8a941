//! When certificates are valid: the two moments in each, read from its DER (RFC 5280, section 4.1), for whoever wants to know before they expire.
//!
//! Nothing is decided by it: whether a certificate is believed decides rustls.

use std::{io, path::Path};

use rustls::pki_types::{CertificateDer, pem::PemObject};

/// Between which moments a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub from: i64,
    /// Until then.
    pub until: i64,
}

/// Of each certificate in a PEM file, in order.
pub fn validities(path: &Path) -> io::Result<Vec<Validity>> {
    let unread = |error: rustls::pki_types::pem::Error| {
        let message = format!("cannot read a certificate in '{}': {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    let found = CertificateDer::pem_file_iter(path).map_err(unread)?;
    let mut validities = Vec::new();
    for certificate in found {
        let certificate = certificate.map_err(unread)?;
        let strange = || {
            let message = format!("'{}' has a certificate that makes no sense", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        validities.push(validity(&certificate).ok_or_else(strange)?);
    }
    Ok(validities)
}

pub(crate) fn validity(certificate: &[u8]) -> Option<Validity> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (mut signed, _) = expect(SEQUENCE, certificate)?;
    if signed.first() == Some(&VERSION) {
        signed = element(signed)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        signed = element(signed)?.2;
    }
    let (validity, _) = expect(SEQUENCE, signed)?;
    let (from, rest) = moment(validity)?;
    let (until, _) = moment(rest)?;
    Some(Validity { from, until })
}

/// The first element: its tag, what is in it, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (inside, after) = rest.split_at_checked(length)?;
    Some((tag, inside, after))
}

fn expect(wanted: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, inside, after) = element(bytes)?;
    (tag == wanted).then_some((inside, after))
}

/// A moment in UTC, with two digits of the year or four.
fn moment(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, text, after) = element(bytes)?;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|place| number(&rest[place..place + 2]));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some((days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second, after))
}

/// Days from 1970 to a day of the Gregorian calendar (Howard Hinnant, *chrono-compatible low-level date algorithms*).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + day_of_year - 719_468
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(from: (i32, u8, u8), until: (i32, u8, u8)) -> rcgen::Certificate {
        let mut params = CertificateParams::new(vec!["host".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn the_moments_of_a_certificate_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("both.pem");
        let (near, far) = (made((1999, 12, 31), (2026, 2, 28)), made((2024, 2, 29), (2120, 3, 1)));
        std::fs::write(&path, near.pem() + &far.pem()).unwrap();
        let found = validities(&path).unwrap();
        assert_eq!(found[0], Validity { from: 946_598_400, until: 1_772_236_800 });
        assert_eq!(found[1], Validity { from: 1_709_164_800, until: 4_738_694_400 });
    }

    #[test]
    fn whatever_the_bytes_are_there_is_no_panic() {
        let whole = made((2020, 1, 1), (2030, 1, 1)).der().to_vec();
        assert!(validity(&whole).is_some());
        for end in 0..whole.len() {
            let _nothing = validity(&whole[..end]);
        }
        for place in 0..whole.len().min(200) {
            for damage in [0, 0x7f, 0x80, 0x83, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] = damage;
                let _anything = validity(&damaged);
            }
        }
    }
}
