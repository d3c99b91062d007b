//! Checks that this user can read the files that the configuration names.

use super::Finding;
use lineside_service::{NamedFile, Service};
use rustix::fs::{Access, Mode, OFlags, access, open};
use rustix::process::geteuid;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Variable that systemd sets for the processes of its units.
const UNIT: &str = "INVOCATION_ID";

/// Returns `path` as an absolute path for a message.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// Returns the name and number of the user whose rights the checks use.
pub(super) fn user() -> String {
    let id = geteuid().as_raw();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    match name_of(id, &passwd) {
        Some(name) => format!("{name} (user {id})"),
        None => format!("user {id}"),
    }
}

/// Returns the name of a user in the text of `/etc/passwd`.
fn name_of(id: u32, passwd: &str) -> Option<&str> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse::<u32>().ok() == Some(id)).then_some(name)
    })
}

/// Says for which user files and directories are checked.
pub(super) fn checked_user() -> Finding {
    let of_unit = match std::env::var_os(UNIT) {
        Some(_) => ", the user of this unit of systemd",
        None => "",
    };
    let what = format!("files and directories are checked for {}{of_unit}", user());
    match geteuid().is_root() {
        false => Finding::ok("user", what),
        true => Finding::warning(
            "user",
            format!("{what}, who may read every file"),
            "if the server runs as another user, run this command as that user: `runuser -u USER -- lineside doctor …`",
        ),
    }
}

/// Checks the files of the service `name`. Returns the findings, and the paths of files that cannot be read.
pub(super) fn check(name: &str, service: &dyn Service) -> (Vec<Finding>, Vec<PathBuf>) {
    let mut findings = Vec::new();
    let mut unreadable = Vec::new();
    for file in service.files() {
        let error = readable(&file.path).err();
        if error.is_some() {
            unreadable.push(file.path.clone());
        }
        findings.push(judge(name, &file, error));
    }
    (findings, unreadable)
}

/// Opens a file or directory for reading. Does not wait for the other end of a pipe.
fn readable(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    open(path, flags, Mode::empty())?;
    Ok(())
}

/// Judges the outcome of opening a file.
fn judge(name: &str, file: &NamedFile, refused: Option<io::Error>) -> Finding {
    let (path, key) = (absolute(&file.path), file.key);
    let shown = format!("{} ({name}.{key})", path.display());
    let Some(error) = refused else {
        return Finding::ok("files", format!("{shown} can be read"));
    };
    match (error.kind(), file.maker) {
        (ErrorKind::NotFound, Some(maker)) if !path.parent().is_some_and(Path::exists) => Finding::failed(
            "files",
            format!("{shown} does not exist, and neither does its directory"),
            format!("correct `{key}` in [{name}], or start {maker} once, which creates both"),
        ),
        (ErrorKind::NotFound, Some(maker)) => Finding::warning(
            "files",
            format!("{shown} does not exist"),
            format!("start {maker}, which creates the file, or correct `{key}` in [{name}]"),
        ),
        (ErrorKind::NotFound, None) => Finding::failed(
            "files",
            format!("{shown} does not exist"),
            format!("correct `{key}` in [{name}], or make the file"),
        ),
        (ErrorKind::PermissionDenied, _) => Finding::failed(
            "files",
            format!("{shown} cannot be read by {}: {error}", user()),
            match closed_directory(&path) {
                Some(directory) => format!("give that user the right to enter {}", directory.display()),
                None => format!(
                    "give that user the right to read it: chown, chgrp or chmod {}",
                    path.display()
                ),
            },
        ),
        _ => Finding::failed(
            "files",
            format!("{shown} cannot be read: {error}"),
            format!("correct `{key}` in [{name}]"),
        ),
    }
}

/// Returns the topmost directory above `path` that this user may not enter.
fn closed_directory(path: &Path) -> Option<&Path> {
    let above: Vec<_> = path.ancestors().skip(1).collect();
    let mut from_root = above.into_iter().rev();
    from_root.find(|directory| access(*directory, Access::EXEC_OK).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn file(path: PathBuf, maker: Option<&'static str>) -> NamedFile {
        NamedFile {
            key: "node_key",
            path,
            maker,
        }
    }

    #[test]
    fn files_are_opened_and_named_by_absolute_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let judged = |path: &Path, maker| judge("hybrid", &file(path.into(), maker), readable(path).err());
        let missing = judged(&path, None);
        assert_eq!(missing.level, Level::Failed);
        assert!(
            missing.what.ends_with("/key (hybrid.node_key) does not exist"),
            "{missing:?}"
        );
        assert_eq!(judged(&path, Some("Bitcoin Core")).level, Level::Warning);
        let lost = judged(&folder.path().join("none/key"), Some("Bitcoin Core"));
        assert_eq!(lost.level, Level::Failed, "{lost:?}");
        fs::write(&path, "").expect("a file");
        assert_eq!(judged(&path, None).level, Level::Ok);
        assert_eq!(judged(folder.path(), None).level, Level::Ok, "a directory");
        let below = judged(&path.join("x"), None);
        assert!(
            below.what.contains("cannot be read: Not a directory"),
            "{below:?}"
        );
        let relative = judge(
            "hybrid",
            &file("none".into(), None),
            readable(Path::new("none")).err(),
        );
        assert!(relative.what.starts_with('/'), "{relative:?}");
    }

    #[test]
    fn a_refused_file_names_the_user() {
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        let finding = judge("hybrid", &file("/".into(), None), Some(denied));
        assert_eq!(finding.level, Level::Failed);
        assert!(
            finding.what.contains(&format!("cannot be read by {}", user())),
            "{finding:?}"
        );
        let passwd = "root:x:0:0:root:/root:/bin/bash\nlineside:x:999:999::/:/bin/false\n";
        assert_eq!(
            (name_of(999, passwd), name_of(1, passwd)),
            (Some("lineside"), None)
        );
    }
}
