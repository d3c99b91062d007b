//! Tables of text cells, which are written as CSV (RFC 4180, but with line feeds as line ends).

use crate::error::{Result, writing};
use std::fs;
use std::path::Path;

/// Table with named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// Panics if the row has more or fewer cells than the table has columns. The code that names the columns also
    /// creates the rows.
    pub fn push<const CELLS: usize>(&mut self, row: [String; CELLS]) {
        assert_eq!(
            row.len(),
            self.columns.len(),
            "the row has another number of cells than the table: {row:?}"
        );
        self.rows.push(row.into());
    }

    /// Returns the table as CSV; the first line contains the column names.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",") + "\n";
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(|cell| quoted(cell)).collect();
            text += &cells.join(",");
            text.push('\n');
        }
        text
    }

    /// Writes the table as a CSV file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.to_csv()).map_err(writing(path))
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Returns a number with six significant digits, so that small percentages remain visible in a table.
pub fn number(value: f64) -> String {
    if value.abs() < 1e-12 || !value.is_finite() {
        return if value.is_finite() {
            "0".into()
        } else {
            String::new()
        };
    }
    let digits = (5 - value.abs().log10().floor() as i32).clamp(0, 15) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let mut table = Table::new(&["a", "b"]);
        table.push(["1".into(), "less than 1 %, \"at most\"".into()]);
        assert_eq!(table.to_csv(), "a,b\n1,\"less than 1 %, \"\"at most\"\"\"\n");
    }

    #[test]
    fn numbers_keep_six_digits_and_no_more() {
        let cases = [
            (2.922_345_6, "2.92235"),
            (1_234_567.8, "1234568"),
            (0.000_004_123_45, "0.00000412345"),
            (100.0, "100"),
            (0.0, "0"),
            (1e-14, "0"),
            (f64::NAN, ""),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
