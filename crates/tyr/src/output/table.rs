//! Columns of text.

use crate::{
    failure::Result,
    output::{Output, Style},
};

/// On which side a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows of text under headings, each column as wide as its widest text.
pub struct Table {
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. An empty list of headings is not printed; then every column is aligned left.
    pub fn new<const N: usize>(headings: [(&str, Align); N]) -> Self {
        let headings = headings.into_iter().map(|(text, align)| (text.to_owned(), align)).collect();
        Table { headings, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert!(self.headings.is_empty() || self.headings.len() == N, "a cell under every heading");
        self.rows.push(cells.into());
    }

    /// Prints headings and rows.
    pub fn print(&self, out: &mut Output) -> Result<()> {
        let widths = self.widths();
        if !self.headings.is_empty() {
            let headings: Vec<String> = self.headings.iter().map(|(text, _)| text.clone()).collect();
            let line = out.styled(Style::Heading, self.layout(&headings, &widths));
            out.line(line)?;
        }
        self.rows.iter().try_for_each(|row| out.line(self.layout(row, &widths)))
    }

    /// The heading and the rows, as lines.
    pub fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let headings: Vec<String> = self.headings.iter().map(|(text, _)| text.clone()).collect();
        std::iter::once(&headings).chain(&self.rows).map(|row| self.layout(row, &widths)).collect()
    }

    fn layout(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            let gap = if column == 0 { "" } else { "  " };
            match self.headings.get(column).map_or(Align::Left, |(_, align)| *align) {
                Align::Right => line.extend([gap, &padding, cell]),
                Align::Left => line.extend([gap, cell, &padding]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|(text, _)| text.chars().count()).collect();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let mut table = Table::new([("NAME", Align::Left), ("SIZE", Align::Right), ("NOTE", Align::Left)]);
        table.row(["a".into(), "12345".into(), "x".into()]);
        table.row(["longer".into(), "1".into(), String::new()]);
        let widths = table.widths();
        assert_eq!(table.layout(&table.rows[0], &widths), "a       12345  x");
        assert_eq!(table.layout(&table.rows[1], &widths), "longer      1");
    }
}
