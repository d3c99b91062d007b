//! Checks of the ports and data directories of the console and of the enabled services.

use super::{Finding, Level, files};
use crate::config::{CheckedConfig, ConfigError, ConfiguredService};
use crate::tcp_port;
use lineside_service::Service;
use lineside_util::data_dir::{has_only_marker, service_of};
use rustix::fs::{Access, FsWord, access, statfs, statvfs};
use rustix::process::geteuid;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Free space of a file system below which a server soon stops to accept writes.
const FREE_MIN: u64 = 1 << 30;
/// Space of one file of a journal. A server whose journal gets no room for its next file does not start.
const SEGMENT: u64 = 64 << 20;
/// Magic numbers of file systems (linux/magic.h) on which data is not safe, and the reason.
const UNSAFE_FILE_SYSTEMS: [(FsWord, &str); 3] = [
    (0x0102_1994, "tmpfs: its files are lost when the machine restarts"),
    (0x6969, "NFS: locks and fdatasync depend on the server"),
    (
        0x794c_7630,
        "overlayfs: a container loses its files when it is removed",
    ),
];

pub(super) fn check(config: &CheckedConfig) -> Vec<Finding> {
    let console = config.console.listen;
    let mut findings = vec![port("console", console, tcp_port::require_free(console).err())];
    findings.extend(
        config
            .require_enabled()
            .err()
            .map(|error| nothing_enabled(config, &error)),
    );
    if config.enabled().next().is_some() {
        findings.push(files::checked_user());
    }
    let enabled = config.services.iter().filter(|one| one.service.is_enabled());
    for ConfiguredService { name, service } in enabled {
        let service = &**service;
        for listen in service.listens().into_iter().chain(service.tcp_listens()) {
            let key = format!("{name}.{}", listen.key);
            if let Some(network) = config.datapath.nic_network_of(listen.address.ip()) {
                let what = format!(
                    "{} ({key}) becomes an address of the NIC, in {network}",
                    listen.address
                );
                findings.push(Finding::ok("port", what));
                continue;
            }
            let bound = match listen.has_fast_path {
                true => UdpSocket::bind(listen.address).err(),
                false => tcp_port::require_free(listen.address).err(),
            };
            findings.push(port(&key, listen.address, bound));
        }
        let (found, unreadable) = files::check(name, service);
        findings.extend(found);
        // The content of the other files; an unreadable file is reported once.
        let is_known = |text: &String| {
            unreadable
                .iter()
                .any(|path| text.contains(&*path.to_string_lossy()))
        };
        let unusable = service.file_warnings().into_iter().filter(|text| !is_known(text));
        findings.extend(unusable.map(|what| {
            let remedy = "correct the file, or its path in the configuration";
            Finding::failed("files", what, remedy)
        }));
        let Some(path) = data(service).map(|path| files::absolute(&path)) else {
            continue;
        };
        findings.push(match service.init_command() {
            Some(command) if !path.exists() => {
                let what = format!(
                    "{} does not exist, and the server does not create it",
                    path.display()
                );
                Finding::failed("data", what, command)
            }
            _ => fitting(data_dir(name, &path), service),
        });
    }
    findings
}

/// Returns the finding for a configuration without services. A server does not start with such a file; without a file
/// the command checks the machine.
fn nothing_enabled(config: &CheckedConfig, error: &ConfigError) -> Finding {
    let what = "no service is enabled, so no service's ports, files and directories are checked";
    let text = error.issues.first().map(ToString::to_string).unwrap_or_default();
    let remedy = text.split_once("; ").map_or(text.as_str(), |(_, remedy)| remedy);
    match config.has_file() {
        true => Finding::failed("services", what, remedy),
        false => Finding::warning("services", what, remedy),
    }
}

/// Returns `finding` about the data directory of `service`, or the failure that the server does not start with the data
/// there.
fn fitting(finding: Finding, service: &dyn Service) -> Finding {
    let fault = service.data_fault().filter(|_| finding.level != Level::Failed);
    let Some(fault) = fault else { return finding };
    let (what, remedy) = fault
        .split_once("; ")
        .unwrap_or((&fault, "set `data` to another directory"));
    Finding::failed("data", what, remedy)
}

/// Returns the data directory in the service's section.
fn data(service: &dyn Service) -> Option<PathBuf> {
    let section = service.section();
    let path = section.get("data")?.as_str()?;
    (!path.is_empty()).then(|| path.into())
}

/// Judges the outcome of binding the address of the configuration's `key`.
fn port(key: &str, address: SocketAddr, refused: Option<io::Error>) -> Finding {
    let Some(error) = refused else {
        return Finding::ok("port", format!("{address} ({key}) is free"));
    };
    let (what, remedy) = match error.kind() {
        ErrorKind::AddrInUse => (
            format!("{address} ({key}) is in use"),
            format!(
                "`ss -lntup sport = :{}` names the process; end it, or choose another port",
                address.port()
            ),
        ),
        ErrorKind::AddrNotAvailable => (
            format!("{address} ({key}) is not an address of this machine"),
            "`ip address` lists them; choose one of them, or 0.0.0.0 for all".into(),
        ),
        ErrorKind::PermissionDenied => (
            format!("{address} ({key}) may not be used by this process"),
            "choose a port above 1023, or give the program CAP_NET_BIND_SERVICE".into(),
        ),
        _ => (
            format!("{address} ({key}) cannot be used: {error}"),
            "choose another address".into(),
        ),
    };
    Finding::failed("port", what, remedy)
}

/// Checks the data directory of the service `name`.
fn data_dir(name: &str, path: &Path) -> Finding {
    let shown = path.display();
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return missing(path),
        Err(error) => {
            let remedy = "give the user of the server the right to enter its parent directories";
            return Finding::failed("data", format!("{shown} cannot be read: {error}"), remedy);
        }
    };
    if !about.is_dir() {
        return Finding::failed(
            "data",
            format!("{shown} is not a directory"),
            "set `data` to a directory",
        );
    }
    let (user, owner) = (geteuid().as_raw(), about.uid());
    if user != owner && user != 0 {
        return Finding::failed(
            "data",
            format!("{shown} belongs to user {owner}, and this process runs as user {user}"),
            format!("run as user {owner}, or chown -R {user} {shown}"),
        );
    }
    if let Some(other) = service_of(path).filter(|other| other != name) {
        return Finding::failed(
            "data",
            format!("{shown} holds data of the service {other}, not of {name}"),
            "set `data` to another directory",
        );
    }
    if is_locked(path) {
        return Finding::warning(
            "data",
            format!("{shown} is in use by a running process"),
            "stop that server before another one uses this directory",
        );
    }
    if has_only_marker(path).unwrap_or(false) {
        return Finding::failed(
            "data",
            format!("{shown} has only the marker of a server; the server's files were removed"),
            format!(
                "restore the files from a copy; if the directory never held data, remove it: rm -r {shown}"
            ),
        );
    }
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 != 0 && user != owner {
        return Finding::failed(
            "data",
            format!("{shown} belongs to user {owner} and has mode {mode:03o}, so that others may read it"),
            format!("chmod 700 {shown}, or run as user {owner}"),
        );
    }
    if mode & 0o077 != 0 {
        return Finding::warning(
            "data",
            format!("{shown} has mode {mode:03o}, so that other users may read it"),
            format!("chmod 700 {shown}; the server does it when it starts"),
        );
    }
    space(path, path)
}

/// Returns true if another process owns the data directory: the owner holds a `flock` on the directory.
fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|directory| matches!(directory.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Checks the directory in which the server will create `path`.
fn missing(path: &Path) -> Finding {
    let parent = path.ancestors().skip(1).find(|parent| parent.exists());
    let parent = match parent {
        Some(parent) => parent,
        // A relative path of one name is created in the working directory.
        None => Path::new("."),
    };
    match access(parent, Access::WRITE_OK) {
        Ok(()) => space(path, parent),
        Err(error) => Finding::failed(
            "data",
            format!("{} does not exist and cannot be created: {error}", path.display()),
            format!(
                "create it for the user of the server: install -d -o USER -g USER -m 700 {}",
                path.display()
            ),
        ),
    }
}

/// Checks the file system of `existing`, on which `path` is or will be.
fn space(path: &Path, existing: &Path) -> Finding {
    let shown = path.display();
    let read = statfs(existing).and_then(|kind| Ok((kind, statvfs(existing)?)));
    let (kind, sizes) = match read {
        Ok(read) => read,
        Err(error) => {
            let remedy = "check the file system with `df`";
            return Finding::warning(
                "data",
                format!("the file system of {shown} cannot be read: {error}"),
                remedy,
            );
        }
    };
    if let Some((_, why)) = UNSAFE_FILE_SYSTEMS
        .iter()
        .find(|(magic, _)| *magic == kind.f_type)
    {
        let remedy = "use a local file system such as ext4 or XFS for data that must not be lost";
        return Finding::warning("data", format!("{shown} is on {why}"), remedy);
    }
    free(path, sizes.f_bavail * sizes.f_frsize)
}

fn free(path: &Path, free: u64) -> Finding {
    let state = format!("{}: {} MiB free", path.display(), free >> 20);
    match free {
        FREE_MIN.. => Finding::ok("data", state),
        SEGMENT.. => Finding::warning(
            "data",
            state,
            "free some space: a server that cannot write accepts no writes",
        ),
        _ => Finding::failed(
            "data",
            state,
            "free some space: the next file of a journal takes 64 MiB",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_util::data_dir::MARKER;
    use std::net::TcpListener;

    #[test]
    fn a_used_port_and_a_foreign_address_fail() {
        let used = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = used.local_addr().expect("its address");
        let finding = port("listen", address, tcp_port::require_free(address).err());
        assert_eq!(finding.level, Level::Failed);
        assert!(finding.what.contains("in use"), "{finding:?}");
        // RFC 5737 reserves this address for documentation.
        let foreign: SocketAddr = "192.0.2.1:7702".parse().expect("an address");
        let finding = port("listen", foreign, UdpSocket::bind(foreign).err());
        assert!(
            finding.what.contains("not an address of this machine"),
            "{finding:?}"
        );
        drop(used);
        assert_eq!(
            port("listen", address, tcp_port::require_free(address).err()).level,
            Level::Ok
        );
    }

    #[test]
    fn directories_are_judged_by_kind_mode_and_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        assert_eq!(data_dir("transfer", &file).level, Level::Failed);
        let data = folder.path().join("data");
        assert_ne!(
            data_dir("transfer", &data).level,
            Level::Failed,
            "a missing directory can be created"
        );
        fs::create_dir(&data).expect("a directory");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("a mode");
        assert!(data_dir("transfer", &data).what.contains("mode 755"));
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("a mode");
        let held = File::open(&data).expect("the directory");
        held.lock().expect("a lock");
        assert!(data_dir("transfer", &data).what.contains("in use"));
        drop(held);
        assert!(!data_dir("transfer", &data).what.contains("in use"));
        fs::write(data.join(MARKER), "service transfer\nformat 1\n").expect("a marker");
        fs::write(data.join("lock"), "").expect("a lock file");
        let finding = data_dir("transfer", &data);
        assert_eq!(finding.level, Level::Failed, "{finding:?}");
        assert!(finding.remedy.is_some_and(|remedy| remedy.contains("restore")));
        fs::write(data.join("0001.log"), "").expect("a segment");
        assert_ne!(data_dir("transfer", &data).level, Level::Failed);
        let finding = data_dir("hybrid", &data);
        assert_eq!(finding.level, Level::Failed, "{finding:?}");
        assert!(
            finding
                .what
                .ends_with("holds data of the service transfer, not of hybrid")
        );
    }

    #[test]
    fn little_space_is_a_warning() {
        let path = Path::new("data");
        assert_eq!(free(path, FREE_MIN).level, Level::Ok);
        assert_eq!(free(path, FREE_MIN - 1).level, Level::Warning);
        assert_eq!(free(path, SEGMENT).level, Level::Warning);
        assert_eq!(free(path, SEGMENT - 1).level, Level::Failed);
    }
}
