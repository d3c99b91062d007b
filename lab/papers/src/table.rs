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

/// Returns a number for readers: four significant digits, and thousands separated by commas.
pub fn short(value: f64) -> String {
    if value.abs() < 1000.0 {
        let digits = (3 - value.abs().max(1e-12).log10().floor() as i32).clamp(0, 9) as usize;
        let text = format!("{value:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    if !value.is_finite() {
        return String::new();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

    #[test]
    fn readers_get_four_digits_and_separated_thousands() {
        let cases = [
            (2.922_345_6, "2.922"),
            (999.96, "1000"),
            (1_234_567.8, "1,234,568"),
            (-12_345.0, "-12,345"),
            (1_000.0, "1,000"),
            (0.000_412_345, "0.0004123"),
            (0.0, "0"),
            (f64::INFINITY, ""),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!(short(f64::NAN), "");
    }
}
