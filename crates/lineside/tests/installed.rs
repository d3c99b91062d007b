//! Parts of an installation: version, shell completions, manual pages, and the reports to systemd's watchdog.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lineside(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(words).output().expect("the program runs")
}

fn printed(words: &[&str]) -> String {
    let output = lineside(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_version_names_commit_and_features() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(printed(&["-V"]), format!("lineside {version}\n"));
    let commit = option_env!("LINESIDE_COMMIT").unwrap_or("unknown");
    let features = if cfg!(feature = "kafka") { "kafka" } else { "none" };
    let expected = format!(
        "lineside {version}\ncommit:   {commit}\nfeatures: {features}\n\
         services: spv, transfer, column, fabric, hybrid\n"
    );
    assert_eq!(printed(&["--version"]), expected);
}

/// Returns the words to which bash completes the last of `words`, with the script of `lineside completions bash`.
fn completed(words: &[&str]) -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("lineside");
    std::fs::write(&script, printed(&["completions", "bash"])).expect("written");
    let ask = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
               _lineside lineside \"${!#}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["--norc", "-c", ask, "bash"])
        .arg(&script)
        .args(words)
        .output()
        .expect("bash runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_options_and_values() {
    let set = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(completed(&["lineside", "spv", "ge"]), set(&["get"]));
    assert_eq!(
        completed(&["lineside", "hybrid", "change", "add-"]),
        set(&["add-key", "add-member", "add-node"])
    );
    assert_eq!(
        completed(&["lineside", "transfer", "serve", "--mo"]),
        set(&["--mode"])
    );
    assert_eq!(
        completed(&["lineside", "transfer", "serve", "--mode", ""]),
        set(&["durable", "express"])
    );
}

#[test]
fn the_completion_scripts_of_other_shells_are_accepted_where_those_are_installed() {
    for (shell, check) in [("zsh", &["-n"][..]), ("fish", &["--no-execute"])] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("verify-ledger"), "{shell}");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("script");
        std::fs::write(&file, script).expect("written");
        match Command::new(shell).args(check).arg(&file).output() {
            Ok(output) => assert!(output.status.success(), "{shell}: {output:?}"),
            Err(_) => eprintln!("skipped: {shell} is not installed"),
        }
    }
    let object: serde_json::Value =
        serde_json::from_str(&printed(&["completions", "fish", "--json"])).expect("JSON");
    assert_eq!(object["script"], printed(&["completions", "fish"]));
}

/// Returns the names of the manual pages of a command and its visible verbs.
fn pages(command: &clap::Command, name: &str) -> Vec<String> {
    let verbs = command.get_subcommands();
    let below = verbs
        .filter(|verb| verb.get_name() != "help" && !verb.is_hide_set())
        .flat_map(|verb| pages(verb, &format!("{name}-{}", verb.get_name())));
    [format!("{name}.1")].into_iter().chain(below).collect()
}

#[test]
fn every_verb_has_a_manual_page_that_man_accepts() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().to_str().expect("UTF-8");
    let said = printed(&["man", directory]);
    let expected: BTreeSet<_> = pages(&lineside::command(), "lineside").into_iter().collect();
    let entries = std::fs::read_dir(folder.path()).expect("a folder").flatten();
    let found: BTreeSet<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, expected);
    assert_eq!(said, format!("{} manual pages in {directory}\n", expected.len()));
    let serve = std::fs::read_to_string(folder.path().join("lineside-spv-serve.1")).expect("a page");
    assert!(
        serve.contains("line\\-bits") || serve.contains("line\\-\\-bits"),
        "{serve}"
    );
    for name in [
        "lineside.1",
        "lineside-spv-serve.1",
        "lineside-hybrid-change-rule.1",
    ] {
        read_by_man(&folder.path().join(name));
    }
}

/// Formats a page with the program `man`, which must print no warnings. Skipped if `man` is not installed.
fn read_by_man(page: &Path) {
    let output = Command::new("man")
        .args(["--warnings", "--encoding=UTF-8", "--local-file"])
        .arg(page)
        .envs([("MANWIDTH", "80"), ("LC_ALL", "C.UTF-8"), ("MANROFFSEQ", "")])
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: man is not installed");
        return;
    };
    assert!(output.status.success(), "{}: {output:?}", page.display());
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(warnings.is_empty(), "{}: {warnings}", page.display());
}

/// Receives one message to the notification socket; `None` if none arrives within the time limit of the socket.
fn received(socket: &UnixDatagram) -> Option<String> {
    let mut message = [0; 1024];
    let bytes = socket.recv(&mut message).ok()?;
    Some(String::from_utf8_lossy(&message[..bytes]).into_owned())
}

#[test]
fn a_server_reports_to_the_watchdog_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("set");
    std::fs::write(
        folder.path().join("config.toml"),
        "[process]\nsandbox = \"strict\"\n[console]\nlisten = \"127.0.0.1:0\"\n[datapath]\nkind = \"socket\"\n\
         [transfer]\nenabled = true\nlisten = \"127.0.0.1:0\"\ndata = \"ledger\"\n",
    )
    .expect("written");
    let mut server = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(["run", "--config", "config.toml"])
        .current_dir(folder.path())
        .envs([
            ("NOTIFY_SOCKET", path.as_os_str()),
            ("WATCHDOG_USEC", "400000".as_ref()),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let first = received(&socket).expect("it reports that it is ready");
    assert!(
        first.starts_with("READY=1\nSTATUS=transfer on 127.0.0.1:"),
        "{first}"
    );
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(received(&socket).as_deref(), Some("WATCHDOG=1\n"));
    }
    // The server sends the first report at once, and each of the others after half of the watchdog's time.
    assert!(
        begun.elapsed() >= Duration::from_millis(350),
        "{:?}",
        begun.elapsed()
    );
    let signal = |signal| {
        // SAFETY: kill accesses no memory; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(server.id() as i32, signal) }, 0);
    };
    signal(libc::SIGHUP);
    let last = std::iter::from_fn(|| received(&socket)).find(|message| message != "WATCHDOG=1\n");
    assert_eq!(last.as_deref(), Some("STOPPING=1\n"));
    assert_eq!(
        server.wait().expect("an end").code(),
        Some(0),
        "SIGHUP ends a server in order"
    );
    let mut said = String::new();
    server
        .stdout
        .take()
        .expect("piped")
        .read_to_string(&mut said)
        .expect("text");
    assert!(
        said.contains("console on ") && !said.contains("ends it"),
        "{said}"
    );
}

#[test]
fn a_server_without_a_terminal_names_the_signal_that_ends_it() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args([
            "column",
            "serve",
            "--datapath",
            "socket",
            "--listen",
            "127.0.0.1:0",
        ])
        .args(["--console", "127.0.0.1:0"])
        .env_remove("INVOCATION_ID")
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let last = lines
        .map_while(Result::ok)
        .find(|line| line.ends_with(" ends it"));
    server.kill().expect("killed");
    server.wait().expect("an end");
    assert_eq!(last.as_deref(), Some("SIGTERM ends it"));
    // The start page names the line for which its reader waits, with a terminal and without one.
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let page = std::fs::read_to_string(page).expect("the start page");
    for line in ["Ctrl-C ends it", "SIGTERM ends it"] {
        assert!(page.contains(line), "README.md does not name the line {line:?}");
    }
}
