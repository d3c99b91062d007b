//! Runs a verb of `lineside-lab papers` as a user does, and reads its JSON object and its tables.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Row of a CSV table: cells by the names of their columns.
pub type Row = BTreeMap<String, String>;

/// Results of a quick run.
pub struct Made {
    /// JSON object that the command printed.
    pub said: Value,
    /// Folder of the files.
    pub out: PathBuf,
    _folder: tempfile::TempDir,
}

impl Made {
    /// Runs `lineside-lab papers NAME --quick --json`, which must succeed.
    pub fn quick(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("new/folder");
        let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
            .args(["--json", "papers", name, "--quick", "--seed", "5", "--out"])
            .arg(&out)
            .output()
            .expect("run");
        assert!(output.status.success(), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!(said["failures"], serde_json::json!([]));
        assert_eq!(
            (&said["paper"], &said["seed"]),
            (&Value::from(name), &Value::from(5))
        );
        let made = Self {
            said,
            out,
            _folder: folder,
        };
        made.check_files();
        made
    }

    /// Checks that every file that the command names has content, and that every plot is an SVG file with points.
    fn check_files(&self) {
        let files = self.said["files"].as_array().expect("files");
        assert!(!files.is_empty());
        for file in files {
            let path = Path::new(file.as_str().expect("a path"));
            let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            assert!(path.starts_with(&self.out), "{path:?}");
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("svg") => assert!(
                    text.contains("<svg") && text.trim_end().ends_with("</svg>") && text.contains("<circle"),
                    "{path:?}"
                ),
                Some("csv") => assert!(text.lines().count() > 1, "{path:?}"),
                _ => panic!("{path:?}"),
            }
        }
    }

    /// Returns the reasons why parts were not measured.
    pub fn not_measured(&self) -> Vec<&str> {
        let reasons = self.said["not_measured"].as_array().expect("not_measured").iter();
        reasons.map(|why| why.as_str().expect("a reason")).collect()
    }

    /// Returns the rows of a table.
    pub fn table(&self, name: &str) -> Vec<Row> {
        let text =
            std::fs::read_to_string(self.out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
        let columns: Vec<String> = lines.next().expect("a line of names").collect();
        let rows = lines.map(|cells| {
            let cells: Vec<String> = cells.collect();
            assert_eq!(cells.len(), columns.len(), "{name}: {cells:?}");
            columns.iter().cloned().zip(cells).collect()
        });
        rows.collect()
    }

    /// Returns the only finding whose quantity contains all of `parts`.
    pub fn finding(&self, parts: &[&str]) -> &Value {
        let findings = self.said["findings"].as_array().expect("findings").iter();
        let has = |finding: &&Value| {
            let quantity = finding["quantity"].as_str().expect("a quantity");
            parts.iter().all(|part| quantity.contains(part))
        };
        let found: Vec<&Value> = findings.filter(has).collect();
        assert_eq!(found.len(), 1, "{parts:?}: {found:?}");
        found[0]
    }
}

/// Returns a cell as a number.
pub fn number(row: &Row, column: &str) -> f64 {
    let cell = &row[column];
    cell.parse()
        .unwrap_or_else(|_| panic!("{column} is {cell:?} in {row:?}"))
}

/// Checks that two numbers differ by less than the rounding of a table.
pub fn assert_near(value: f64, expected: f64, context: &dyn std::fmt::Debug) {
    assert!(
        (value - expected).abs() <= 1e-3 * expected.abs() + 1e-9,
        "{value} instead of {expected}: {context:?}"
    );
}
