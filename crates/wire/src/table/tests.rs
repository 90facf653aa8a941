use alloc::{format, vec, vec::Vec};

use super::*;
use crate::{Malformed, Reader};

fn entries_of(pairs: &[(&[u8], Option<&[u8]>)]) -> Vec<u8> {
    let mut builder = EntriesBuilder::default();
    let mut bytes = Vec::new();
    let mut bound = 0;
    for (key, value) in pairs {
        bound = builder.size_with(key, *value);
        builder.push(key, *value);
    }
    builder.encode_into(&mut bytes);
    assert!(builder.is_empty() && bytes.len() <= bound, "{} > {bound}", bytes.len());
    bytes
}

#[test]
fn every_entry_is_found_and_nothing_else() {
    let keys: Vec<Vec<u8>> = (0..200_u32).map(|n| format!("blob/{:05}", n * 2).into_bytes()).collect();
    let pairs: Vec<_> =
        keys.iter().enumerate().map(|(n, key)| (&key[..], (n % 3 > 0).then_some(&key[5..]))).collect();
    let bytes = entries_of(&pairs);
    let entries = Entries::decode(&bytes).expect("decodes");
    entries.check().expect("is in order");
    assert_eq!((entries.len(), entries.prefix()), (200, &b"blob/00"[..]));
    for (n, (key, value)) in pairs.iter().enumerate() {
        assert_eq!(entries.search(key), Ok(Ok(n)));
        assert_eq!(entries.entry(n).map(|entry| entry.value), Ok(*value));
        let after = [key, &b"\0"[..]].concat();
        assert_eq!(entries.search(&after), Ok(Err(n + 1)));
    }
    assert_eq!(entries.search(b""), Ok(Err(0)));
    assert_eq!(entries.search(b"blob/0"), Ok(Err(0)));
    assert_eq!(entries.search(b"blob/01"), Ok(Err(200)));
    assert!(entries.entry(200).is_err());
}

#[test]
fn the_empty_key_and_keys_that_extend_each_other_are_entries() {
    let pairs: [(&[u8], _); 4] = [(b"", None), (b"a", Some(&b""[..])), (b"a\0", None), (b"aa", Some(b"x"))];
    let bytes = entries_of(&pairs);
    let entries = Entries::decode(&bytes).expect("decodes");
    assert_eq!(entries.check(), Ok(()));
    for (n, (key, _)) in pairs.iter().enumerate() {
        assert_eq!(entries.search(key), Ok(Ok(n)));
    }
}

#[test]
fn keys_out_of_order_are_noticed() {
    let bytes = entries_of(&[(b"b", None), (b"a", None)]);
    let entries = Entries::decode(&bytes).expect("decodes");
    assert_eq!(entries.check(), Err(Malformed("keys do not ascend")));
}

#[test]
fn a_part_opens_only_where_it_belongs() {
    let place = part::Place { table: TableId(3), block: 9 };
    let mut bytes = Vec::new();
    part::begin(&mut bytes);
    bytes.extend_from_slice(b"content");
    part::seal(&mut bytes, place);
    assert_eq!((bytes.len(), part::blocks(7)), (BLOCK_SIZE, 1));
    assert_eq!(part::open(&bytes, place), Ok(&b"content"[..]));
    assert!(part::open(&bytes, part::Place { block: 10, ..place }).is_err());
    assert!(part::open(&bytes, part::Place { table: TableId(4), ..place }).is_err());
    for index in 0..bytes.len() {
        bytes[index] ^= 0x10;
        assert!(part::open(&bytes, place).is_err(), "byte {index}");
        bytes[index] ^= 0x10;
    }
    assert_eq!((part::blocks(BLOCK_SIZE - 8), part::blocks(BLOCK_SIZE - 7)), (1, 2));
}

#[test]
fn a_filter_knows_its_keys_and_few_others() {
    let hash = |n: u32| key_hash(&n.to_be_bytes());
    let hashes: Vec<u64> = (0..50_000).map(hash).collect();
    let filter = Filter::new(&hashes, 16);
    assert!(hashes.iter().all(|hash| filter.may_contain(*hash)));
    let wrong = (50_000..1_050_000).filter(|n| filter.may_contain(hash(*n))).count();
    assert!(wrong < 1_200, "{wrong} of a million pass; 0.1 % are promised");
    assert!(wrong > 100, "{wrong} of a million pass; the test does not test");
}

#[test]
fn a_filter_comes_back_from_its_bytes() {
    let filter = Filter::new(&[1, 2, 3], 16);
    let mut bytes = Vec::new();
    filter.encode_into(&mut bytes);
    assert_eq!(Filter::decode(&bytes, filter.probes()), Ok(filter));
    assert!(Filter::decode(&bytes, 0).is_err() && Filter::decode(&bytes, 17).is_err());
    assert!(Filter::decode(&bytes[1..], 9).is_err() && Filter::decode(&[], 9).is_err());
}

#[test]
fn hashes_are_the_same_for_ever() {
    let hashes = [&b""[..], b"\0", b"a", b"0123456789abcdef", b"0123456789abcdefg"].map(key_hash);
    let expected = [
        0x7ff1_bbf1_db79_844d,
        0x6b91_c103_9096_7910,
        0xcdfe_bc4c_cab4_6c42,
        0xd298_3e63_e37a_a831,
        0x86bf_6a0a_b825_b4e3,
    ];
    assert_eq!(hashes, expected);
}

#[test]
fn a_span_finds_the_page_of_a_key() {
    let mut builder = SpanBuilder::new(SPAN_PAGES_MAX);
    for (separator, blocks) in [(&b"c"[..], 1), (b"g", 300), (b"ga", 2)] {
        builder.push_hash(key_hash(separator));
        builder.push_page(separator, blocks);
    }
    let page_blocks = builder.page_blocks();
    let mut content = Vec::new();
    builder.encode_into(16, &mut content);
    let span = Span::decode(&content, page_blocks).expect("decodes");
    let found = [&b"a"[..], b"c", b"d", b"g", b"g\0", b"ga", b"z"].map(|key| span.find(key));
    assert_eq!(found, [0, 0, 0, 1, 1, 2, 2].map(Ok));
    let places = [(0, 1), (1, 300), (301, 2)].map(|(block, blocks)| Ok(PagePlace { block, blocks }));
    assert_eq!([span.page(0), span.page(1), span.page(2)], places);
    assert_eq!(span.separator(2), Ok(b"ga".to_vec()));
    assert!(span.filter().may_contain(key_hash(b"ga")));
    assert!(span.page(3).is_err());
    assert!(Span::decode(&content, 301).is_err());
}

#[test]
fn a_span_is_full_before_it_cannot_be_encoded() {
    let mut builder = SpanBuilder::new(SPAN_PAGES_MAX);
    let mut separator = vec![0; ENTRY_KEY_SIZE_MAX];
    for n in 1..=3 {
        separator[0] = n;
        assert!(!builder.is_full(&separator));
        builder.push_page(&separator, 1);
    }
    assert!(builder.is_full(&separator));
    builder.push_hash(1);
    builder.encode_into(16, &mut Vec::new());
    assert!(!builder.is_full(&separator));
}

#[test]
fn a_root_finds_the_span_of_a_key() {
    let separators = [&b"pre"[..], b"pre-12345678", b"pre-123456789", b"pre-1234567890", b"pre-2", b"prf"];
    let mut builder = RootBuilder::default();
    for separator in separators {
        builder.push(separator, 5, 2);
    }
    let mut content = Vec::new();
    builder.encode_into(b"prz", &mut content);
    let root = Root::decode(&content).expect("decodes");
    assert_eq!((root.len(), root.blocks(), root.largest()), (6, 42, &b"prz"[..]));
    for (index, separator) in separators.iter().enumerate() {
        assert_eq!(root.find(separator), Some(index));
        assert_eq!(root.find(&[separator, &b"\0"[..]].concat()), Some(index));
        assert_eq!(root.separator(index), *separator);
        assert_eq!(root.span(index).block, index as u64 * 7);
    }
    assert_eq!([&b""[..], b"pr", b"prd", b"q", b"prz\0"].map(|key| root.find(key)), [None; 5]);
    assert_eq!([&b"pre-1"[..], b"pre-19", b"prz"].map(|key| root.find(key)), [0, 3, 5].map(Some));
}

#[test]
fn a_root_whose_spans_do_not_ascend_is_refused() {
    let mut builder = RootBuilder::default();
    builder.push(b"b", 1, 1);
    builder.push(b"b", 1, 1);
    let mut content = Vec::new();
    builder.encode_into(b"c", &mut content);
    assert!(Root::decode(&content).is_err());
}

#[test]
fn a_footer_of_another_version_is_told_from_a_damaged_one() {
    let footer = Footer { table: TableId(7), entries: 3, tombstones: 1, root_block: 12, root_blocks: 1 };
    let (mut block, checksum) = footer.encode();
    assert_eq!(Footer::decode(&block), Ok((footer, checksum)));
    block[8] = 2;
    assert!(matches!(Footer::decode(&block), Err(FooterFault::Malformed(_))));
    let checksum = crate::checksum::crc32c(&block[..BLOCK_SIZE - 4]);
    block[BLOCK_SIZE - 4..].copy_from_slice(&checksum.to_le_bytes());
    let fault = Footer::decode(&block).expect_err("is refused");
    assert_eq!(fault, FooterFault::Version(2));
    assert!(format!("{fault}").contains("supports versions up to 1"));
}

#[test]
fn summaries_and_file_names_come_back() {
    let id = TableId(u64::MAX);
    let summary = TableSummary { id, entries: 300, tombstones: 2, bytes: 1 << 40, checksum: 77 };
    let mut bytes = Vec::new();
    summary.encode_into(&mut bytes);
    let mut reader = Reader::new(&bytes);
    assert_eq!(TableSummary::decode(&mut reader), Ok(summary));
    assert!(reader.is_empty());
    assert_eq!(TableId::from_file_name(&TableId(12).file_name()), Some(TableId(12)));
    for name in ["table-", "table-012", "table-+1", "table-1.tmp", "segment-1"] {
        assert_eq!(TableId::from_file_name(name), None, "{name}");
    }
}
