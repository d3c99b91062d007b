//! Users that own data directories and the files in them.

use super::DataDirError;
use rustix::process::geteuid;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// User id of root.
const ROOT: u32 = 0;
/// File that lists the users of the machine.
const USERS: &str = "/etc/passwd";

/// Refuses the existing directory `path` if this process runs as root and another user owns the directory. The files
/// that root would create there could not be opened by that user. Changes nothing.
///
/// # Errors
/// [`DataDirError::Foreign`], [`DataDirError::Io`].
pub fn check_owner(path: &Path) -> Result<(), DataDirError> {
    let about = fs::metadata(path).map_err(DataDirError::io("read", path))?;
    refuse_foreign(&about, path)
}

/// Refuses a directory of another user if this process runs as root.
pub(super) fn refuse_foreign(about: &Metadata, path: &Path) -> Result<(), DataDirError> {
    let owner = about.uid();
    if geteuid().as_raw() != ROOT || owner == ROOT {
        return Ok(());
    }
    let path = path.into();
    Err(DataDirError::Foreign { path, owner })
}

/// Returns the name of a user, or `#` and the id if the machine's user list does not have it.
pub(super) fn shown_user(id: u32) -> String {
    name_of(id).unwrap_or_else(|| format!("#{id}"))
}

/// Returns the beginning of a command line that runs a program as the user `id`.
pub(super) fn run_as(id: u32) -> String {
    match name_of(id) {
        Some(name) => format!("runuser -u {name} --"),
        None => format!("setpriv --reuid={id} --clear-groups --"),
    }
}

fn name_of(id: u32) -> Option<String> {
    let users = fs::read_to_string(USERS).ok()?;
    name_in(&users, id)
}

/// Returns the name of the user `id` in a text with the format of passwd(5).
fn name_in(users: &str, id: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, uid) = (fields.next()?, fields.next()?, fields.next()?);
        (uid.parse() == Ok(id)).then(|| name.to_owned())
    })
}

/// Adds to a refused access to `path` its owner and the remedy, if the file belongs to a user other than the one of
/// this process. Returns other errors as they are.
pub fn explain_denied(path: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let Ok(about) = fs::symlink_metadata(path) else {
        return error;
    };
    let (owner, own) = (about.uid(), geteuid().as_raw());
    if owner == own {
        return error;
    }
    let recursive = if about.is_dir() { "-R " } else { "" };
    let (user, shown) = (name_of(own).unwrap_or_else(|| own.to_string()), path.display());
    let text = format!(
        "{error}: {shown} belongs to user {}, and this process runs as user {user}; give it to that user: chown \
         {recursive}{user} {shown}",
        shown_user(owner)
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use super::name_in;

    #[test]
    fn the_name_of_a_user_is_found_by_the_whole_id() {
        let users = "root:x:0:0:root:/root:/bin/sh\nlineside:x:990:990::/var/lib/lineside:/bin/false\n";
        assert_eq!(name_in(users, 990).as_deref(), Some("lineside"));
        assert_eq!(name_in(users, 0).as_deref(), Some("root"));
        assert_eq!(name_in(users, 99), None);
        assert_eq!(name_in("lineside", 0), None);
    }
}
