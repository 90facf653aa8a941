//! Whatever is encoded comes back, from the same bytes for ever. No bytes make a decoder panic or reserve memory that they do not
//! justify, and what it accepts has no other encoding.
//!
//! `fixtures/layouts-N.txt` has the bytes of a value of every kind under version N of the protocol, the newest that is spoken. After the
//! version has been raised, `TYR_WRITE_FIXTURE=1 cargo test -p tyr-proto --test encoding` writes the file of the new one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limit;
mod samples;

use std::{fmt::Write as _, fs, path::PathBuf};

use samples::{Sample, damaged, first_bytes, kinds, samples};
use tyr_proto::{
    Epoch, Grant,
    cluster::{Command, Fact, Request, Response, Subject},
    encoding::{from_bytes, to_bytes},
    entry::Entry,
    message::{Answer, Envelope, Message},
};
use tyr_wire::connection::VERSIONS;

/// What accepts bytes gives the same back.
fn expect_canonical(sample: &Sample, bytes: &[u8]) {
    if let Ok(again) = (sample.again)(bytes) {
        assert_eq!(again, bytes, "{} read {}", sample.name, (sample.show)(bytes));
    }
}

#[test]
fn every_value_comes_back() {
    for sample in samples() {
        assert_eq!((sample.again)(&sample.bytes).as_deref(), Ok(&sample.bytes[..]), "{}", sample.name);
    }
}

#[test]
fn values_without_shared_payload_come_back_as_they_were() {
    let shares = ["Prepare", "Refuse", "Write", "Pass", "Append", "Copy", "State", "::Stage", "Pulled"];
    for sample in samples().iter().filter(|sample| !shares.iter().any(|kind| sample.name.ends_with(kind))) {
        assert_eq!((sample.show)(&sample.bytes), sample.shown, "{}", sample.name);
    }
}

#[test]
fn every_kind_has_a_sample() {
    assert_eq!(first_bytes("Entry"), kinds::<Entry>());
    assert_eq!(first_bytes("Message"), kinds::<Message>());
    assert_eq!(first_bytes("Answer"), kinds::<Answer>());
    assert_eq!(first_bytes("Command"), kinds::<Command>());
    assert_eq!(first_bytes("Fact"), kinds::<Fact>());
    assert_eq!(first_bytes("Request"), kinds::<Request>());
    assert_eq!(first_bytes("Response"), kinds::<Response>());
    assert_eq!(first_bytes("Subject"), kinds::<Subject>());
    assert_eq!(first_bytes("Grant"), kinds::<Grant>());
}

#[test]
fn the_bytes_are_those_of_the_fixture() {
    let mut text = String::new();
    for sample in samples() {
        let hex = sample.bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        writeln!(text, "{} {hex}", sample.name).unwrap();
    }
    let name = format!("tests/fixtures/layouts-{}.txt", VERSIONS.end());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("TYR_WRITE_FIXTURE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let fixture = fs::read_to_string(&path).unwrap();
    for (now, then) in text.lines().zip(fixture.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(text.lines().count(), fixture.lines().count());
}

/// A name names the same thing in every version.
#[test]
fn what_an_earlier_version_has_written_is_read() {
    let samples = samples();
    for version in *VERSIONS.start()..*VERSIONS.end() {
        let path = format!("{}/tests/fixtures/layouts-{version}.txt", env!("CARGO_MANIFEST_DIR"));
        let fixture = fs::read_to_string(path).unwrap();
        assert!(fixture.lines().count() > 100);
        for line in fixture.lines() {
            let (name, hex) = line.rsplit_once(' ').unwrap();
            let sample = samples.iter().find(|sample| sample.name == name).unwrap();
            let digits = hex.as_bytes().as_chunks::<2>().0.iter();
            let bytes: Vec<u8> = digits
                .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap())
                .collect();
            assert_eq!((sample.again)(&bytes).as_deref(), Ok(&bytes[..]), "{name} of version {version}");
        }
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    for sample in samples() {
        for length in 0..sample.bytes.len() {
            let cut = (sample.again)(&sample.bytes[..length]);
            assert!(cut.is_err(), "{} of {length} bytes is {cut:?}", sample.name);
        }
        assert!((sample.again)(&[&sample.bytes[..], &[0]].concat()).is_err(), "{}", sample.name);
    }
}

#[test]
fn every_single_damaged_byte_is_survived() {
    limit::memory();
    for sample in samples() {
        let mut bytes = sample.bytes.clone();
        for place in 0..bytes.len() {
            let valid = sample.bytes[place];
            let neighbours = [valid.wrapping_add(1), valid.wrapping_sub(1), valid ^ 0x80];
            for byte in [0, 1, 2, 3, 0x7f, 0x80, 0xff].into_iter().chain(neighbours) {
                bytes[place] = byte;
                expect_canonical(&sample, &bytes);
            }
            bytes[place] = valid;
        }
    }
}

#[test]
fn any_damage_is_survived() {
    limit::memory();
    let samples = samples();
    bolero::check!().for_each(|bytes: &[u8]| {
        let Some((which, damage)) = bytes.split_first() else { return };
        let sample = &samples[usize::from(*which) % samples.len()];
        let damage = damage.as_chunks().0;
        expect_canonical(sample, &damaged(&sample.bytes, &damage[..damage.len().min(8)]));
    });
}

#[test]
fn any_bytes_are_survived() {
    limit::memory();
    let samples = samples();
    bolero::check!()
        .for_each(|bytes: &[u8]| samples.iter().for_each(|sample| expect_canonical(sample, bytes)));
}

#[test]
fn counts_without_elements_are_refused_before_memory_is_reserved() {
    limit::memory();
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for count in [&huge[..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff, 0xff, 0x03]] {
        let bytes = [count, &[0; 100]].concat();
        assert!(from_bytes::<Vec<Entry>>(&bytes).is_err());
        assert!(from_bytes::<Vec<u8>>(&bytes).is_err());
        assert!(from_bytes::<std::collections::BTreeMap<u64, Envelope>>(&bytes).is_err());
    }
}

#[test]
fn an_entry_takes_no_more_than_is_reckoned() {
    let Message::Append { entries, .. } = samples::append(Epoch(1), 0) else { unreachable!("it is one") };
    assert!(entries.len() > 10);
    for (_, entry) in entries {
        let (size, reckoned) = (to_bytes(&*entry).len(), entry.size());
        assert!(size <= reckoned, "{size} {reckoned} {entry:?}");
    }
}
