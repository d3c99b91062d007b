//! Rule for a release: every file that names the version names the version of the workspace.

mod common;

use common::root;

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the version in `[workspace.package]` of Cargo.toml.
fn version() -> String {
    let manifest = text("Cargo.toml");
    let section = manifest.split("[workspace.package]").nth(1).expect("the section");
    let line = section
        .lines()
        .find(|line| line.starts_with("version = "))
        .expect("a version");
    line.split('"').nth(1).expect("a quoted version").to_owned()
}

#[test]
fn every_file_names_the_version_of_the_workspace() {
    let version = version();
    let heading = format!("## [{version}] - ");
    let is_dated = |line: &str| {
        let date = line.strip_prefix(&heading).unwrap_or_default();
        date.len() == 10 && date.chars().all(|one| one.is_ascii_digit() || one == '-')
    };
    assert!(
        text("CHANGELOG.md").lines().any(is_dated),
        "CHANGELOG.md has no section `{heading}DATE`"
    );
    for (path, expected) in [
        ("packaging/deb/changelog", format!("lineside ({version}-1) ")),
        (
            "packaging/compose.yaml",
            format!("image: docker.io/library/lineside:{version}\n"),
        ),
        (
            "packaging/compose.yaml",
            format!("lineside-{version}-x86_64-linux.oci.tar\n"),
        ),
        ("docs/install.md", format!("lineside_{version}-1_amd64.deb")),
        (
            "docs/install.md",
            format!("lineside-{version}-x86_64-linux.tar.xz"),
        ),
        ("README.md", format!("lineside_{version}-1_amd64.deb")),
        ("CITATION.cff", format!("\nversion: {version}\n")),
        (
            "crates/verify/README.md",
            format!("lineside-verify-{version}.crate"),
        ),
        (
            "clients/python-verify/Cargo.toml",
            format!("version = \"{version}\"\nedition"),
        ),
    ] {
        assert!(
            text(path).contains(&expected),
            "{path} does not name {expected:?}"
        );
    }
}

/// Returns the date of a version's section in CHANGELOG.md, such as `2026-11-27`.
fn release_date(changelog: &str, version: &str) -> Option<String> {
    let heading = format!("## [{version}] - ");
    let line = changelog.lines().find_map(|line| line.strip_prefix(&heading));
    line.map(str::to_owned)
}

/// Returns the date of the newest entry of a Debian changelog in the same form.
fn debian_date(changelog: &str) -> Option<String> {
    let line = changelog.lines().find(|line| line.starts_with(" -- "))?;
    let mut words = line.rsplit_once(", ")?.1.split(' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let month = months.split(' ').position(|name| name == month)? + 1;
    Some(format!("{year}-{month:02}-{day}"))
}

#[test]
fn both_changelogs_have_one_date_of_the_release() {
    let entry = "lineside (0.1.0-1) unstable\n\n -- A <a@b>  Fri, 27 Nov 2026 00:00:00 +0000\n";
    assert_eq!(debian_date(entry).as_deref(), Some("2026-11-27"));
    let released = release_date(&text("CHANGELOG.md"), &version());
    assert!(released.is_some(), "CHANGELOG.md has no section of this version");
    assert_eq!(debian_date(&text("packaging/deb/changelog")), released);
}

/// Returns the value of a macro of a C header.
fn macro_value(header: &str, name: &str) -> String {
    let opening = format!("#define {name} ");
    let line = header.lines().find_map(|line| line.strip_prefix(&opening));
    line.unwrap_or_else(|| panic!("there is no macro {name}"))
        .to_owned()
}

#[test]
fn the_c_headers_have_the_version_of_the_workspace() {
    let version = version();
    for name in ["spv", "transfer"] {
        let header = text(&format!("clients/c/lineside_{name}.h"));
        let prefix = format!("LINESIDE_{}_VERSION", name.to_uppercase());
        let parts = ["MAJOR", "MINOR", "PATCH"].map(|part| macro_value(&header, &format!("{prefix}_{part}")));
        assert_eq!(parts.join("."), version, "lineside_{name}.h");
    }
}

#[test]
fn the_pages_of_the_clients_say_how_to_get_and_test_an_unpublished_client() {
    for language in ["python", "go", "c"] {
        let (page, script) = (
            text(&format!("docs/client-{language}.md")),
            text(&format!("scripts/test-{language}.sh")),
        );
        assert!(script.contains("LINESIDE_BINARY"), "scripts/test-{language}.sh");
        assert!(
            page.contains(&format!("scripts/test-{language}.sh")) && page.contains("LINESIDE_BINARY"),
            "docs/client-{language}.md does not name the script of the tests and its variable LINESIDE_BINARY"
        );
    }
    // No registry has the Go module yet.
    for path in ["docs/client-go.md", "clients/go/README.md"] {
        let page = text(path);
        assert!(
            page.contains("go mod edit -replace") && !page.contains("@latest"),
            "{path} does not say how to get the module from a copy of the repository"
        );
    }
}
