//! Damaged and foreign files.

use tyr_wire::table::{Footer, part};

use super::*;

/// A table of two spans, some long and some deleted keys.
fn written() -> (Arc<SimDisk>, TableSummary, Map) {
    let mut entries: BTreeMap<_, _> = range(0..150).collect();
    entries.extend((150..170).map(|n| (key(n), None)));
    entries.insert(vec![b'c'; 300], Some(vec![1; 5000]));
    let disk = SimDisk::new(1);
    let summary = flush(&open(&disk, Vec::new()), entries.clone());
    (disk, summary, entries)
}

/// Everything that a damaged table may say: the right thing, or that it is damaged.
fn check_answers(index: &Index, entries: &Map) -> usize {
    let mut errors = 0;
    for (key, value) in entries {
        match index.get(key) {
            Ok(found) => assert_eq!(&found.map(Vec::from), value),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.message().starts_with("table-0"), "{error}");
                errors += 1;
            }
        }
    }
    let mut live = entries.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    for entry in index.scan(Unbounded) {
        match entry {
            Ok((key, value)) => assert_eq!(live.next(), Some((&key, &Vec::from(value)))),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                return errors + 1;
            }
        }
    }
    assert_eq!(live.next(), None);
    errors
}

#[test]
fn a_change_of_any_byte_is_found_and_never_answers_wrongly() {
    let (disk, summary, entries) = written();
    let name = summary.id.file_name();
    let content = disk.read_file(&name).expect("reads");
    assert!(content.len() > 6 * tyr_env::BLOCK_SIZE);
    let disk = SimDisk::new(1);
    // Bits of each byte in turn, and every byte near the beginning of a block, where headers are.
    let positions = (0..content.len()).filter(|at| at % 4096 < 64 || at % 4096 > 4088 || at % 13 == 0);
    for at in positions {
        let mut damaged = content.clone();
        damaged[at] ^= 1 << (at % 8);
        disk.write_file(&name, &damaged).expect("writes");
        match Index::open(disk.clone(), vec![summary], small()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}"),
            Ok(index) => {
                let errors = check_answers(&index, &entries);
                let faults = &index.verify()[0].faults;
                assert!(errors > 0 && !faults.is_empty(), "byte {at} was not noticed");
            }
        }
    }
}

#[test]
fn a_damaged_page_is_the_only_one_that_is_lost() {
    let (disk, summary, entries) = written();
    let name = summary.id.file_name();
    let mut content = disk.read_file(&name).expect("reads");
    content[100] ^= 1;
    disk.write_file(&name, &content).expect("writes");
    let index = open(&disk, vec![summary]);
    let errors = check_answers(&index, &entries);
    assert!(errors > 1 && errors < entries.len() / 2, "{errors}");
    let report = index.verify_table(summary.id).expect("is visible");
    assert_eq!(report.faults.len(), 1);
    assert_eq!(report.faults[0].message(), "table-0, block 0: the checksum does not match");
    let error = index.merge(&index.plan_full_merge().expect("a table"), &|_| true);
    assert_eq!(error.map(|_| ()).expect_err("cannot be read").kind(), ErrorKind::Corrupt);
}

#[test]
fn blocks_in_the_wrong_place_are_noticed() {
    let (disk, summary, entries) = written();
    let name = summary.id.file_name();
    let mut content = disk.read_file(&name).expect("reads");
    let (a, b) = content.split_at_mut(4096);
    a.swap_with_slice(&mut b[..4096]);
    disk.write_file(&name, &content).expect("writes");
    assert!(check_answers(&open(&disk, vec![summary]), &entries) > 0);
}

#[test]
fn a_file_that_is_missing_or_another_or_has_another_length_is_corrupt() {
    let (disk, summary, _) = written();
    let other = flush(&open(&disk, vec![summary]), range(0..400));
    let name = summary.id.file_name();
    let content = disk.read_file(&name).expect("reads");
    let refused = |bytes: &[u8]| {
        disk.write_file(&name, bytes).expect("writes");
        let error =
            Index::open(disk.clone(), vec![other, summary], small()).map(|_| ()).expect_err("is refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("table-0"), "{error}");
    };
    refused(&[]);
    refused(&content[4096..]);
    refused(&content[..content.len() - 1]);
    refused(&[&content[..], &[0; 4096]].concat());
    refused(&vec![0; content.len()]);
    refused(&disk.read_file(&other.id.file_name()).expect("reads"));
    disk.remove(&name).expect("is there");
    let error = Index::open(disk, vec![summary], small()).map(|_| ()).expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn another_build_of_the_same_table_is_not_taken_for_it() {
    let (disk, summary, _) = written();
    let twin = SimDisk::new(1);
    let other = flush(&open(&twin, Vec::new()), written().2.into_iter().filter(|(_, value)| value.is_some()));
    assert_eq!(other.id, summary.id);
    disk.write_file(&summary.id.file_name(), &twin.read_file(&other.id.file_name()).expect("reads"))
        .expect("writes");
    assert!(Index::open(disk, vec![summary], small()).is_err());
}

#[test]
fn a_newer_format_is_refused_with_the_version_that_is_supported() {
    let (disk, summary, _) = written();
    let name = summary.id.file_name();
    let mut content = disk.read_file(&name).expect("reads");
    let footer = content.len() - 4096;
    content[footer + 8] = 2;
    let end = content.len() - 4;
    let checksum = crc(&content[footer..end]);
    content[end..].copy_from_slice(&checksum.to_le_bytes());
    disk.write_file(&name, &content).expect("writes");
    let error = Index::open(disk, vec![summary], small()).map(|_| ()).expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("version 2") && error.message().contains("up to 1"), "{error}");
}

/// Changes the content of the part in this block of the first table, and gives it a checksum that fits.
fn forge(disk: &SimDisk, block: usize, change: impl FnOnce(&mut Vec<u8>)) {
    let mut file = disk.read_file("table-0").expect("reads");
    let place = part::Place { table: TableId(0), block: block as u64 };
    let range = block * 4096..(block + 1) * 4096;
    let mut forged = Vec::new();
    part::begin(&mut forged);
    forged.extend_from_slice(part::open(&file[range.clone()], place).expect("has one block"));
    change(&mut forged);
    part::seal(&mut forged, place);
    file[range].copy_from_slice(&forged);
    disk.write_file("table-0", &file).expect("writes");
}

/// Of the only page or span of the first table, that of keys 0 to 19.
fn verify_forged(block: usize, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let disk = SimDisk::new(1);
    let summary = flush(&open(&disk, Vec::new()), range(0..20));
    forge(&disk, block, change);
    findings(&disk, summary)
}

fn findings(disk: &Arc<SimDisk>, summary: TableSummary) -> String {
    let report = open(disk, vec![summary]).verify().remove(0);
    report.faults.iter().map(|fault| fault.message().to_owned()).collect::<Vec<_>>().join("; ")
}

/// Replaces the key that ends with these digits, of which the page has only these.
fn replace_key(page: &mut [u8], from: [u8; 2], to: [u8; 2]) {
    let at = page.windows(3).position(|bytes| bytes == [2, from[0], from[1]]).expect("the page has the key");
    page[at + 1..at + 3].copy_from_slice(&to);
}

#[test]
fn verifying_finds_what_checksums_do_not() {
    assert_eq!(verify_forged(0, |_| {}), "");
    let findings = verify_forged(0, |page| replace_key(page, *b"19", *b"00"));
    assert_eq!(findings, "table-0, block 0: keys do not ascend");
    let findings = verify_forged(0, |page| replace_key(page, *b"00", *b"\0\0"));
    assert_eq!(findings, "table-0, block 0: a page begins before its separator");
    let findings = verify_forged(1, |span| {
        let filter = span.len() - 64;
        span[filter..].fill(0);
    });
    assert_eq!(findings, "table-0, block 0: the filter does not know a key");
}

#[test]
fn verifying_counts_the_entries() {
    let disk = SimDisk::new(1);
    let mut summary = flush(&open(&disk, Vec::new()), range(0..20));
    let mut file = disk.read_file("table-0").expect("reads");
    let at = file.len() - 4096;
    let (mut footer, _) = Footer::decode(&file[at..]).expect("decodes");
    footer.entries += 1;
    let (block, checksum) = footer.encode();
    file[at..].copy_from_slice(&block);
    disk.write_file("table-0", &file).expect("writes");
    (summary.entries, summary.checksum) = (21, checksum);
    let findings = findings(&disk, summary);
    assert_eq!(findings, "table-0, block 2: the entries are not those that the table is said to have");
}

/// CRC-32C, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn the_bytes_of_a_table_are_those_of_the_first_release() {
    let disk = SimDisk::new(1);
    let entries = [("a", Some("1")), ("apple", Some("fruit")), ("apples", None), ("b", Some(""))];
    let table = open(&disk, Vec::new()).build(entries).expect("builds").expect("has entries");
    let written = disk.read_file(&table.summary().id.file_name()).expect("reads");
    assert_eq!(hex(&written), include_str!("table-0.hex"));
    let mut summary = Vec::new();
    table.summary().encode_into(&mut summary);
    assert_eq!(hex(&summary), "00000  00 04 01 80 80 01 fb 68 b2 6a\n");
}

/// Sixteen bytes a line, each with its position; lines of zeros are left out.
fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    lines
        .map(|(n, line)| {
            let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{:05x}  {}\n", n * 16, digits.join(" "))
        })
        .collect()
}
