//! A whole HBase in one JVM, for tests and benches: built from `hbase/` by Maven, started on free ports of the loopback
//! address with its data in a folder of its own, ended when dropped.
//!
//! ```no_run
//! use lineside_hbase_mini::{Jars, Options};
//!
//! let jars = Jars::build()?;
//! let mut hbase = jars.start(&Options::default())?;
//! hbase.command("create table entry")?;
//! println!("Thrift 2 at 127.0.0.1:{}", hbase.ports.thrift);
//! # Ok::<(), lineside_hbase_mini::Error>(())
//! ```

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// What Java 17 must open to HBase 2.6.
const OPENS: &[&str] = &[
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.misc",
    "java.security.jgss/sun.security.krb5",
];

/// Why there is no HBase.
#[derive(Debug)]
pub enum Error {
    /// Something that it needs is not on this machine: a test is skipped.
    NotHere(String),
    /// It is there, and does not do what it should.
    Failed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotHere(why) => write!(out, "no HBase here: {why}"),
            Self::Failed(why) => write!(out, "HBase: {why}"),
        }
    }
}

impl std::error::Error for Error {}

fn failed<T: std::fmt::Display>(what: &'static str) -> impl Fn(T) -> Error {
    move |why| Error::Failed(format!("{what}: {why}"))
}

/// Everything in Java, built.
#[derive(Clone, Debug)]
pub struct Jars {
    out: PathBuf,
}

impl Jars {
    /// Builds `hbase/`, once for each process; the first time on a machine Maven fetches 110 MB.
    ///
    /// # Errors
    /// [`Error::NotHere`] without a JDK of version 17 or later, without Maven, or where Maven cannot fetch what it
    /// needs; [`Error::Failed`] where something does not compile.
    pub fn build() -> Result<Self, Error> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        for tool in ["javac", "mvn"] {
            let version = Command::new(tool).arg("-version").output();
            if !version.is_ok_and(|output| output.status.success()) {
                return Err(Error::NotHere(format!("{tool} is not installed")));
            }
        }
        match BUILT.get_or_init(package) {
            Ok(out) => Ok(Self { out: out.clone() }),
            Err(why) if why.contains("COMPILATION ERROR") => Err(Error::Failed(why.clone())),
            Err(why) => Err(Error::NotHere(format!("Maven: {why}"))),
        }
    }

    /// The jar of one module of `hbase/`.
    ///
    /// # Errors
    /// [`Error::Failed`] where there is none of this name.
    pub fn module(&self, name: &str) -> Result<PathBuf, Error> {
        let folder = self.out.join(name);
        let jars = fs::read_dir(&folder).map_err(failed("looking for a jar"))?;
        jars.filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|found| found == "jar"))
            .ok_or_else(|| Error::Failed(format!("no jar in {}", folder.display())))
    }

    /// A JVM with HBase and `modules` on its class path, with what they need besides, that would run `class`.
    ///
    /// # Errors
    /// Those of [`Jars::module`].
    pub fn java(&self, modules: &[&str], class: &str, compilers: Compilers) -> Result<Command, Error> {
        let mut path = format!("{}/*", self.out.join("lib").display());
        for module in modules {
            path.insert_str(0, &format!("{}:", self.module(module)?.display()));
            let needed = self.out.join(module).join("lib");
            if needed.is_dir() {
                path.push_str(&format!(":{}/*", needed.display()));
            }
        }
        let mut java = Command::new("java");
        java.args(["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC"]);
        if compilers == Compilers::First {
            java.arg("-XX:TieredStopAtLevel=1");
        }
        for package in OPENS {
            java.args(["--add-opens", &format!("{package}=ALL-UNNAMED")]);
        }
        java.arg("-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true");
        java.args(["-cp", &path, class]);
        Ok(java)
    }

    /// Starts it, and waits until it can be asked: 7 to 15 s.
    ///
    /// # Errors
    /// [`Error::Failed`], with the end of what it said.
    pub fn start(&self, options: &Options) -> Result<HBase, Error> {
        let folder = tempfile::tempdir().map_err(failed("making a folder"))?;
        let said = folder.path().join("said");
        let modules: Vec<&str> = ["mini"]
            .into_iter()
            .chain(options.modules.iter().copied())
            .collect();
        let mut java = self.java(&modules, "lineside.mini.MiniHBase", options.compilers)?;
        let mut tool_options = String::new();
        for (name, value) in &options.settings {
            tool_options.push_str(&format!(" -D{name}={value}"));
        }
        let log = File::create(&said).map_err(failed("making a file"))?;
        let mut child = java
            .env("JDK_JAVA_OPTIONS", tool_options)
            .arg(folder.path().join("hbase"))
            .arg(options.region_servers.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(failed("starting java"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Failed("no pipes".into()));
        };
        let mut hbase = HBase {
            ports: Ports::default(),
            child,
            input,
            output: BufReader::new(output),
            said,
            folder,
        };
        let ready = hbase.line()?;
        hbase.ports = Ports::read(&ready).ok_or_else(|| hbase.failed(&ready))?;
        Ok(hbase)
    }
}

/// Runs Maven, for one process at a time.
fn package() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let out = std::path::absolute(target.join("hbase")).map_err(|error| error.to_string())?;
    fs::create_dir_all(&out).map_err(|error| error.to_string())?;
    let lock = File::create(out.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let maven = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(root.join("clients/java/pom.xml"))
        .arg(format!("-Dlineside.out={}", out.display()))
        .arg("package")
        .output()
        .map_err(|error| error.to_string())?;
    match maven.status.success() {
        true => Ok(out),
        false => Err(String::from_utf8_lossy(&maven.stdout).into_owned()),
    }
}

/// Which of its compilers a JVM uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compilers {
    /// The first alone: it starts in two thirds of the time, and stays slower.
    #[default]
    First,
    /// Both, as everybody's: for what is measured.
    Both,
}

/// What is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Region servers in the JVM.
    pub region_servers: u32,
    /// Settings of HBase; each name begins with `hbase.` or `lineside.`, and neither names nor values have blanks.
    pub settings: Vec<(String, String)>,
    /// Modules of `hbase/` on its class path, besides `mini`.
    pub modules: Vec<&'static str>,
    /// Its JVM's.
    pub compilers: Compilers,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region_servers: 1,
            settings: Vec::new(),
            modules: Vec::new(),
            compilers: Compilers::default(),
        }
    }
}

/// Where it listens, all on 127.0.0.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// ZooKeeper.
    pub zookeeper: u16,
    /// The master.
    pub master: u16,
    /// The first region server; 0 where there is none in the JVM.
    pub regionserver: u16,
    /// The Thrift 2 gateway: binary protocol, unframed.
    pub thrift: u16,
}

impl Ports {
    fn read(ready: &str) -> Option<Self> {
        let words = ready.strip_prefix("READY ")?;
        let port = |name: &str| -> Option<u16> {
            let mut words = words.split(' ');
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        Some(Self {
            zookeeper: port("zookeeper")?,
            master: port("master")?,
            regionserver: port("regionserver")?,
            thrift: port("thrift")?,
        })
    }
}

/// It runs; ends when dropped, and its data go with it.
#[derive(Debug)]
pub struct HBase {
    /// Where it listens.
    pub ports: Ports,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    said: PathBuf,
    folder: TempDir,
}

impl HBase {
    /// Has it do one of the commands of `Commands.java`; what it says to it.
    ///
    /// # Errors
    /// [`Error::Failed`] with what it says.
    pub fn command(&mut self, command: &str) -> Result<String, Error> {
        writeln!(self.input, "{command}").map_err(failed("asking"))?;
        let line = self.line()?;
        match line.strip_prefix("OK") {
            Some(said) => Ok(said.trim().to_owned()),
            None => Err(Error::Failed(format!("{command}: {line}"))),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its data lie, and where more may be put; goes with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it said in its log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line.trim_end().to_owned()),
            Ok(_) => Err(self.failed("it ended")),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    fn failed(&self, why: &str) -> Error {
        let log = self.log();
        let from = log.char_indices().rev().nth(2000).map_or(0, |(at, _)| at);
        Error::Failed(format!("{why}; the end of its log:\n{}", &log[from..]))
    }
}

impl Drop for HBase {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
