//! No bytes make a decoder of index tables panic, and what it accepts can be used without panic.

use tyr_wire::{
    Reader,
    table::{
        BLOCK_SIZE, Entries, EntriesBuilder, Filter, Footer, Root, RootBuilder, SPAN_PAGES_MAX, Span,
        SpanBuilder, TableId, TableSummary, part,
    },
};

#[test]
fn entries_survive_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut builder = EntriesBuilder::default();
        for n in 0..20_u8 {
            builder.push(&[b'k', n, n], (n % 5 > 0).then_some(&[n][..]));
        }
        let mut valid = Vec::new();
        builder.encode_into(&mut valid);
        use_entries(&damaged(valid, bytes));
        use_entries(bytes);
    });
}

fn use_entries(bytes: &[u8]) {
    let Ok(entries) = Entries::decode(bytes) else { return };
    let ordered = entries.check().is_ok();
    for index in 0..entries.len() {
        let entry = entries.entry(index);
        assert!(entry.is_ok() || !ordered);
        let Ok(entry) = entry else { continue };
        let key = [entries.prefix(), entry.suffix].concat();
        let found = entries.search(&key);
        assert!(!ordered || found == Ok(Ok(index)));
    }
}

/// The valid bytes with some of them replaced: each pair of `damage` is a position and the byte to put there.
fn damaged(mut valid: Vec<u8>, damage: &[u8]) -> Vec<u8> {
    let size = valid.len();
    for [position, byte] in damage.as_chunks().0.iter().take(4) {
        valid[usize::from(*position) % size] = *byte;
    }
    valid
}

#[test]
fn spans_survive_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut builder = SpanBuilder::new(SPAN_PAGES_MAX);
        for n in 0..10_u8 {
            builder.push_hash(n.into());
            builder.push_page(&[b's', n, n], u64::from(n) + 1);
        }
        let page_blocks = builder.page_blocks();
        let mut valid = Vec::new();
        builder.encode_into(16, &mut valid);
        use_span(&damaged(valid, bytes), page_blocks);
        use_span(bytes, page_blocks);
    });
}

fn use_span(bytes: &[u8], page_blocks: u64) {
    let Ok(span) = Span::decode(bytes, page_blocks) else { return };
    for index in 0..span.len() {
        let separator = span.separator(index).expect("a decoded span has its separators");
        assert_eq!(span.find(&separator), Ok(index));
        span.page(index).expect("a decoded span has its pages");
    }
}

#[test]
fn roots_survive_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut builder = RootBuilder::default();
        for n in 0..10_u8 {
            builder.push(&[b'r', n, n], u64::from(n) + 1, 1);
        }
        let mut valid = Vec::new();
        builder.encode_into(b"s", &mut valid);
        use_root(&damaged(valid, bytes));
        use_root(bytes);
    });
}

fn use_root(bytes: &[u8]) {
    let Ok(root) = Root::decode(bytes) else { return };
    for index in 0..root.len() {
        assert_eq!(root.find(&root.separator(index)), Some(index));
    }
    assert_eq!(root.find(root.largest()), Some(root.len() - 1));
    assert!(root.size() <= 1024 + 64 * bytes.len());
}

#[test]
fn filters_parts_footers_and_summaries_survive_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Ok(filter) = Filter::decode(bytes, 9) {
            filter.may_contain(u64::MAX);
        }
        let place = part::Place { table: TableId(1), block: 0 };
        let _ = part::open(bytes, place);
        let _ = Footer::decode(bytes);
        let mut reader = Reader::new(bytes);
        while let Ok(summary) = TableSummary::decode(&mut reader) {
            let mut again = Vec::new();
            summary.encode_into(&mut again);
            assert_eq!(TableSummary::decode(&mut Reader::new(&again)), Ok(summary));
        }
    });
}

#[test]
fn sealed_parts_open_whatever_they_hold() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let place = part::Place { table: TableId(1), block: 5 };
        let mut sealed = Vec::new();
        part::begin(&mut sealed);
        sealed.extend_from_slice(bytes);
        part::seal(&mut sealed, place);
        assert_eq!(sealed.len(), part::blocks(bytes.len()) * BLOCK_SIZE);
        assert_eq!(part::open(&sealed, place), Ok(bytes));
    });
}
