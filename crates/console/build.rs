//! Embeds the dashboard page: writes `$OUT_DIR/page.rs`, a list of the files in `target/dashboard`, which
//! `scripts/dashboard.sh` builds. If that folder is empty, the list has the page `src/no_dashboard.html` instead.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Content types by extension. The build fails for a file with another extension, so that nothing is embedded by
/// mistake.
const TYPES: &[(&str, &str)] = &[
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = root.join("../../target/dashboard");
    // Cargo would run this script at every build if the folder did not exist. A failure to create it is harmless.
    let _ = fs::create_dir_all(&built);
    println!("cargo:rerun-if-changed={}", built.display());
    println!("cargo:rerun-if-changed=src/no_dashboard.html");
    let index = built.join("index.html");
    let has_dashboard = index.exists();
    let files = if has_dashboard {
        let mut assets = files(&built.join("assets")).expect("target/dashboard/assets can be read");
        assets.sort();
        assets.insert(0, index);
        assets
    } else {
        vec![root.join("src/no_dashboard.html")]
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    // The list names copies in OUT_DIR, so that it is the same text in every directory. Otherwise the path of the
    // repository would change the compiled crate.
    let copies = out.join("page");
    fs::create_dir_all(&copies).expect("OUT_DIR can be written");
    for file in &files {
        let name = file.file_name().expect("a file has a name");
        fs::copy(file, copies.join(name)).expect("the file can be copied into OUT_DIR");
    }
    fs::write(out.join("page.rs"), list(&files, has_dashboard)).expect("OUT_DIR can be written");
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Returns the Rust source of the list of files. The first file is the page itself.
fn list(files: &[PathBuf], has_dashboard: bool) -> String {
    let mut out = format!("const HAS_DASHBOARD: bool = {has_dashboard};\nconst FILES: &[PageFile] = &[\n");
    for path in files {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let content_type = TYPES.iter().find(|(known, _)| Some(*known) == extension);
        let (_, content_type) = content_type.unwrap_or_else(|| {
            panic!(
                "target/dashboard has a file of an unknown type: {}",
                path.display()
            )
        });
        writeln!(
            out,
            "    PageFile {{ name: {name:?}, content_type: {content_type:?}, \
             bytes: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/page/{name}\")) }},"
        )
        .expect("a String can be written");
    }
    out + "];\n"
}
