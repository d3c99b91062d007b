use super::*;
use std::os::unix::fs::symlink;

const KIND: Kind = Kind::new("transfer", 1).beside(&["settlement.key"]);
const OTHER: Kind = Kind::new("hybrid", 1);
const LATER: Kind = Kind::new("transfer", 2);

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn listed(path: &Path) -> Vec<String> {
    let mut found = names(path).unwrap();
    found.sort();
    found
}

#[test]
fn a_new_directory_is_closed_to_others_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    let taken = DataDir::claim(&path, &KIND).unwrap();
    taken.lock_file("lock").unwrap();
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("lock")), 0o600);
    assert_eq!(mode(&path.join(MARKER)), 0o600);
    assert_eq!(listed(&path), [MARKER, "lock"]);
    assert_eq!(
        fs::read_to_string(path.join(MARKER)).unwrap(),
        "service transfer\nformat 1\n"
    );
    taken.check().unwrap();
}

#[test]
fn permissions_of_other_users_are_removed_from_directories_of_this_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("open");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o775)).unwrap();
    fs::write(path.join("lock"), "").unwrap();
    fs::set_permissions(path.join("lock"), Permissions::from_mode(0o644)).unwrap();
    let taken = DataDir::claim(&path, &KIND).unwrap();
    taken.lock_file("lock").unwrap();
    assert_eq!((mode(&path), mode(&path.join("lock"))), (0o700, 0o600));

    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    assert!(matches!(
        DataDir::claim(&shared, &KIND),
        Err(DataDirError::Shared { .. })
    ));
    assert_eq!((mode(&shared), listed(&shared).len()), (0o1777, 0));
}

#[test]
fn root_may_not_write_into_a_directory_of_another_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign");
    fs::create_dir(&path).unwrap();
    if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
        println!("skipped: this needs root, to give a directory to another user");
        return;
    }
    fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
    let refuses = || {
        for refused in [DataDir::claim(&path, &KIND), DataDir::claim_any(&path)] {
            let refused = refused.unwrap_err();
            assert!(
                matches!(refused, DataDirError::Foreign { owner: 65_534, .. }),
                "{refused}"
            );
            let text = refused.to_string();
            let remedy = format!("chown -R root {}", path.display());
            assert!(
                text.contains(" -- lineside …") && text.ends_with(&remedy),
                "{text}"
            );
        }
        assert!(matches!(check_owner(&path), Err(DataDirError::Foreign { .. })));
        assert!(listed(&path).is_empty());
    };
    refuses();
    assert_eq!(mode(&path), 0o750);
    // Files that root creates in a directory closed to others could not be opened by its owner either.
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    refuses();
    // A running server is found before the owner of its directory matters.
    let lock = fs::File::open(&path).unwrap();
    lock.try_lock().unwrap();
    let locked = DataDir::claim_any(&path).unwrap_err();
    assert!(matches!(locked, DataDirError::Locked { .. }), "{locked}");
    drop(lock);
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    check_owner(&path).unwrap();
    DataDir::claim(&path, &KIND).unwrap();
}

/// Regression test: a program that another thread was just starting still had the lock that its parent had given back,
/// so the directory counted as in use.
#[test]
fn a_lock_that_is_given_back_soon_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    drop(DataDir::claim(&path, &KIND).unwrap());
    let held = fs::File::open(&path).unwrap();
    held.try_lock().unwrap();
    let in_use = DataDir::claim(&path, &KIND).unwrap_err();
    assert!(matches!(in_use, DataDirError::Locked { .. }), "{in_use}");
    std::thread::scope(|scope| {
        let claim = scope.spawn(|| DataDir::claim(&path, &KIND));
        std::thread::sleep(file_lock::LOCK_WAIT / 4);
        drop(held);
        claim.join().unwrap().unwrap();
    });
}

#[test]
fn a_refused_access_names_the_owner_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acknowledged");
    fs::write(&path, "").unwrap();
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    // The file belongs to the user of this process, so its owner explains nothing.
    assert_eq!(explain_denied(&path, denied()).to_string(), denied().to_string());
    if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
        println!("skipped: this needs root, to give a file to another user");
        return;
    }
    let message = explain_denied(&path, denied()).to_string();
    let remedy = format!("chown root {}", path.display());
    assert!(
        message.contains("belongs to user") && message.ends_with(&remedy),
        "{message}"
    );
    let missing = io::Error::from(io::ErrorKind::NotFound);
    assert!(!explain_denied(&path, missing).to_string().contains("belongs"));
}

#[test]
fn other_kinds_and_unmarked_files_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    drop(DataDir::claim(&path, &KIND).unwrap());
    let before = listed(&path);
    for kind in [&OTHER, &LATER] {
        for claim in [DataDir::claim, DataDir::claim_existing] {
            let refused = claim(&path, kind).unwrap_err();
            assert!(matches!(refused, DataDirError::OtherKind { .. }), "{refused}");
        }
        assert!(check_kind(&path, kind).is_err());
    }
    assert!(check_kind(&path, &KIND).is_ok());
    assert_eq!(listed(&path), before);

    fs::write(path.join(MARKER), "service transfer\nformat 2\n").unwrap();
    let refused = DataDir::claim(&path, &KIND).unwrap_err();
    assert!(
        refused.to_string().ends_with(": install a newer version"),
        "{refused}"
    );
    assert!(refused.is_wrong_argument());

    fs::write(path.join(MARKER), "service").unwrap();
    let refused = DataDir::claim(&path, &KIND).unwrap_err();
    assert!(refused.to_string().contains("cannot be read"), "{refused}");

    let unmarked = folder.path().join("unmarked");
    fs::create_dir(&unmarked).unwrap();
    fs::write(unmarked.join("settlement.key"), "").unwrap();
    fs::write(unmarked.join("photo"), "").unwrap();
    fs::set_permissions(&unmarked, Permissions::from_mode(0o755)).unwrap();
    let refused = DataDir::claim(&unmarked, &KIND).unwrap_err();
    assert!(matches!(&refused, DataDirError::Unmarked { file, .. } if file == "photo"));
    let hint = format!(
        "printf 'service transfer\\nformat 1\\n' > {}/{MARKER}",
        unmarked.display()
    );
    assert!(refused.to_string().contains(&hint), "{refused}");
    assert_eq!(mode(&unmarked), 0o755, "nothing was changed");
    fs::remove_file(unmarked.join("photo")).unwrap();
    DataDir::claim(&unmarked, &KIND).unwrap();
}

#[test]
fn a_missing_directory_is_not_created_if_only_an_existing_one_may_be_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    assert!(matches!(
        DataDir::claim_existing(&path, &KIND),
        Err(DataDirError::Missing { .. })
    ));
    assert!(check_kind(&path, &KIND).is_ok());
    assert!(!path.exists());
}

#[test]
fn a_second_owner_is_refused_even_after_the_lock_file_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let first = DataDir::claim(&path, &KIND).unwrap();
    first.lock_file("lock").unwrap();
    fs::remove_file(path.join("lock")).unwrap();
    for claim in [DataDir::claim, DataDir::claim_existing] {
        let refused = claim(&path, &KIND).unwrap_err();
        assert!(matches!(refused, DataDirError::Locked { .. }), "{refused}");
    }
    drop(first);
    DataDir::claim(&path, &KIND).unwrap();
}

#[test]
fn a_removed_moved_or_replaced_directory_or_lock_is_reported() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 5] = [
        ("the lock removed", |path| {
            fs::remove_file(path.join("lock")).unwrap();
        }),
        ("the lock replaced", |path| {
            fs::write(path.join("other"), "").unwrap();
            fs::rename(path.join("other"), path.join("lock")).unwrap();
        }),
        ("the directory removed", |path| fs::remove_dir_all(path).unwrap()),
        ("the directory moved", |path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
        }),
        ("the directory replaced by a link to another", |path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
            symlink("/", path).unwrap();
        }),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let taken = DataDir::claim(&path, &KIND).unwrap();
        taken.lock_file("lock").unwrap();
        taken.inner.check();
        taken.check().unwrap_or_else(|why| panic!("{what}: {why}"));
        change(&path);
        taken.inner.check();
        let why = taken.check().expect_err(what).to_string();
        assert!(why.contains(&path.display().to_string()), "{what}: {why}");
        let lost = (path, why);
        assert!(problems().contains(&lost), "{what}");
        drop(taken);
        assert!(!problems().contains(&lost), "{what}: its owner has ended");
    }
}

#[test]
fn a_new_directory_is_removed_unless_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/c");
    let fill = |path: &Path| {
        fs::create_dir(path.join("state")).unwrap();
        fs::write(path.join("state/0"), "").unwrap();
        fs::write(path.join("1.log"), "").unwrap();
    };
    let taken = DataDir::claim(&path, &KIND).unwrap();
    assert!(made_directories().contains(&folder.path().join("a")));
    let made = taken.new_directory();
    fill(&path);
    drop((taken, made));
    assert!(
        listed(folder.path()).is_empty(),
        "directories created for it are removed too"
    );

    fs::create_dir_all(&path).unwrap();
    let taken = DataDir::claim(&path, &KIND).unwrap();
    let made = taken.new_directory();
    fill(&path);
    drop((taken, made));
    assert!(
        path.is_dir() && listed(&path).is_empty(),
        "the directory existed before"
    );

    let taken = DataDir::claim(&path, &KIND).unwrap();
    let mut made = taken.new_directory();
    fill(&path);
    made.keep();
    drop((taken, made));
    let kept = listed(&path);
    assert_eq!(kept, ["1.log", MARKER, "state"]);

    let taken = DataDir::claim(&path, &KIND).unwrap();
    drop((taken.new_directory(), taken));
    assert_eq!(listed(&path), kept, "the directory held data before");
}

#[test]
fn a_key_that_the_operator_provided_remains_after_a_failed_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settlement.key"), "").unwrap();
    let taken = DataDir::claim(folder.path(), &KIND).unwrap();
    drop((taken.new_directory(), taken));
    assert!(folder.path().join("settlement.key").exists());
}
