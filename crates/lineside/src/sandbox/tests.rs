use super::*;
use std::ffi::CString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;

/// Environment variable that makes the test binary act as the child that makes a forbidden call.
const CHILD: &str = "LINESIDE_TEST_FORBIDDEN_CALL";

fn kept(writes: &Path) -> KeptRights {
    KeptRights {
        places: Places {
            reads: Vec::new(),
            writes: vec![writes.into()],
            removes_below: Vec::new(),
        },
        calls: vec![CallGroup::Files, CallGroup::Directories],
        has_programs: false,
    }
}

/// Returns the limits of a service with only the groups `calls`.
fn kept_calls(writes: &Path, calls: &[CallGroup]) -> KeptRights {
    KeptRights {
        calls: calls.to_vec(),
        ..kept(writes)
    }
}

/// Runs `act` on a new thread that has entered the sandbox.
fn within<T: Send>(kept: &KeptRights, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let act = || {
            let lacking = enter(SandboxName::On, kept).expect("a sandbox");
            if !lacking.is_empty() {
                println!("skipped in part: {}", lacking.join("; "));
            }
            act()
        };
        scope.spawn(act).join().expect("a thread")
    })
}

/// Returns the error number of a system call that returned `result`; `None` if it succeeded.
fn error_of(result: i64) -> Option<i32> {
    (result == -1).then(|| io::Error::last_os_error().raw_os_error().expect("an error"))
}

fn execve() -> Option<i32> {
    let path = CString::new("/bin/true").expect("text");
    let arguments = [path.as_ptr(), std::ptr::null()];
    // SAFETY: `path` is a C string, and `arguments` is a list of C strings that ends with a null pointer.
    error_of(unsafe { libc::syscall(libc::SYS_execve, path.as_ptr(), arguments.as_ptr(), 0) })
}

#[test]
fn forbidden_calls_are_refused_also_on_threads_that_start_later() {
    if !has_seccomp() {
        println!("skipped: this kernel has no seccomp filters");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let refused = within(&kept(folder.path()), || {
        let later = std::thread::spawn(|| {
            let executable = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            // SAFETY: the filter refuses each call before the kernel reads its arguments. If the kernel made a mapping
            // nevertheless, it would only leak.
            unsafe {
                [
                    ("execve", execve()),
                    ("ptrace", error_of(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))),
                    (
                        "fork",
                        error_of(libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)),
                    ),
                    ("namespace", error_of(libc::unshare(libc::CLONE_NEWUSER).into())),
                    (
                        "packet socket",
                        error_of(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).into()),
                    ),
                    ("bpf", error_of(libc::syscall(libc::SYS_bpf, 0, 0, 0))),
                    ("mount", error_of(libc::syscall(libc::SYS_mount, 0, 0, 0, 0, 0))),
                    ("kill", error_of(libc::kill(libc::getppid(), 0).into())),
                    (
                        "memory to write and run",
                        error_of(libc::mmap(
                            std::ptr::null_mut(),
                            4096,
                            executable,
                            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                            -1,
                            0,
                        ) as i64),
                    ),
                    (
                        "another filter",
                        error_of(libc::syscall(libc::SYS_seccomp, 0, 0, 0)),
                    ),
                ]
            }
        });
        later.join().expect("a thread")
    });
    for (call, error) in refused {
        assert_eq!(error, Some(libc::EPERM), "{call}");
    }
}

#[test]
fn the_calls_that_a_server_needs_are_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    within(&kept(folder.path()), || {
        let (send, receive) = channel();
        std::thread::spawn(move || send.send(7))
            .join()
            .expect("a thread")
            .expect("sent");
        assert_eq!(receive.recv(), Ok(7));
        let file = folder.path().join("file");
        std::fs::write(&file, "text").expect("written");
        std::fs::File::open(&file)
            .expect("opened")
            .sync_all()
            .expect("synced");
        std::fs::rename(&file, folder.path().join("other")).expect("renamed");
        std::fs::create_dir(folder.path().join("below")).expect("made");
        std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    });
}

/// A service may make the system calls of the groups that it names, and no other calls.
#[test]
fn a_service_may_make_only_the_calls_of_its_own_groups() {
    if !has_seccomp() {
        println!("skipped: this kernel has no seccomp filters");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let attempts = |calls: &[CallGroup]| {
        within(&kept_calls(folder.path(), calls), || {
            std::fs::write(&file, "text").expect("every server may write what is open to it");
            let makes = std::fs::create_dir(folder.path().join("below"));
            let removes = std::fs::remove_file(&file);
            let _ = std::fs::remove_dir(folder.path().join("below"));
            [makes, removes].map(|result| result.is_ok())
        })
    };
    assert_eq!(attempts(&[]), [false, false]);
    assert_eq!(attempts(&[CallGroup::Files]), [false, true]);
    assert_eq!(attempts(&[CallGroup::Directories]), [true, false]);
    std::fs::remove_dir(folder.path().join("below")).expect("the last attempt made it");
    assert_eq!(
        attempts(&[CallGroup::Files, CallGroup::Directories]),
        [true, true]
    );
}

#[test]
fn files_outside_the_data_directory_are_refused() {
    let [inside, outside] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").expect("written");
    if let Some(fault) = landlock_fault() {
        println!("skipped: {fault}");
        return;
    }
    within(&kept(inside.path()), || {
        let denied = |result: io::Result<()>| result.expect_err("refused").kind();
        let read = std::fs::read(&secret).map(drop);
        assert_eq!(denied(read), io::ErrorKind::PermissionDenied);
        let written = std::fs::write(outside.path().join("new"), "");
        assert_eq!(denied(written), io::ErrorKind::PermissionDenied);
        let removed = std::fs::remove_file(&secret);
        assert_eq!(denied(removed), io::ErrorKind::PermissionDenied);
        std::fs::read_to_string("/proc/self/status").expect("read");
    });
    assert_eq!(std::fs::read(&secret).expect("still there"), b"secret");
}

/// Child process of the test below. Does nothing if the environment variable [`CHILD`] is not set.
#[test]
fn child_that_makes_a_forbidden_call() {
    if std::env::var_os(CHILD).is_some() {
        enter(SandboxName::Strict, &kept(Path::new("/tmp"))).expect("a sandbox");
        println!("not killed: {:?}", execve());
    }
}

#[test]
fn a_strict_sandbox_kills_a_process_that_makes_a_forbidden_call() {
    if !has_seccomp() {
        println!("skipped: this kernel has no seccomp filters");
        return;
    }
    let name = "sandbox::tests::child_that_makes_a_forbidden_call";
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a child");
    let said = String::from_utf8_lossy(&child.stdout);
    assert_eq!(child.status.signal(), Some(libc::SIGSYS), "{said}");
    assert!(!said.contains("not killed"), "{said}");
}

/// A container's filter makes a call fail with EPERM, as the kernel does not; other filters choose ENOSYS.
#[test]
fn a_filter_is_named_as_a_reason_why_landlock_cannot_be_used() {
    if !has_seccomp() {
        println!("skipped: this kernel has no seccomp filters");
        return;
    }
    let refused = |number: i32| {
        let rules = [(libc::SYS_landlock_create_ruleset, Vec::new())].into();
        let failing = SeccompAction::Errno(number as u32);
        let arch = std::env::consts::ARCH.try_into().expect("an architecture");
        let filter =
            seccompiler::SeccompFilter::new(rules, SeccompAction::Allow, failing, arch).expect("a filter");
        let program: seccompiler::BpfProgram = filter.try_into().expect("a program");
        let folder = tempfile::tempdir().expect("a folder");
        let act = || {
            apply_filter(&program).expect("a filter");
            (
                landlock_fault(),
                files::restrict(&kept(folder.path()).places).expect("a warning"),
            )
        };
        std::thread::scope(|scope| scope.spawn(act).join().expect("a thread"))
    };
    for (number, words) in [
        (libc::EPERM, "seccomp filter of the container or unit forbids"),
        (
            libc::ENOSYS,
            "no Landlock, or a seccomp filter of the container hides it",
        ),
        (libc::EOPNOTSUPP, "not enabled in this kernel"),
    ] {
        let (fault, warning) = refused(number);
        let (fault, warning) = (fault.expect("a reason"), warning.expect("a warning"));
        assert!(fault.contains(words), "{fault}");
        assert!(
            warning.contains(&fault) && warning.ends_with("every file of its user"),
            "{warning}"
        );
    }
}

#[test]
fn a_sandbox_that_is_off_restricts_nothing_and_says_so() {
    let places = kept(Path::new("/tmp"));
    let said = std::thread::scope(|scope| {
        let act = || {
            let said = enter(SandboxName::Off, &places).expect("nothing to do");
            assert!(Command::new("true").status().expect("run").success());
            said
        };
        scope.spawn(act).join().expect("a thread")
    });
    assert!(said[0].contains("sandbox = \"off\""), "{said:?}");
}

#[test]
fn the_documents_show_the_table_of_allowed_calls() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(page).expect("docs/operations.md");
    let table = calls::table();
    if cfg!(target_arch = "x86_64") {
        assert!(
            page.contains(&table),
            "docs/operations.md lacks this table:\n{table}"
        );
    }
}
