//! HBase in one JVM, for tests and benchmarks. Maven builds it from `hbase/`. HBase listens on free ports of the
//! loopback address, stores its data in a temporary folder, and ends when its value is dropped.
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

/// Java packages that Java 17 must open to HBase 2.6.
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

/// Reason why HBase does not run.
#[derive(Debug)]
pub enum Error {
    /// A requirement is not installed on this machine; a test is then skipped.
    NotHere(String),
    /// HBase is installed, but does not work.
    Failed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotHere(why) => write!(out, "HBase is not available: {why}"),
            Self::Failed(why) => write!(out, "HBase: {why}"),
        }
    }
}

impl std::error::Error for Error {}

fn failed<T: std::fmt::Display>(what: &'static str) -> impl Fn(T) -> Error {
    move |why| Error::Failed(format!("{what}: {why}"))
}

/// Compiled Java code: HBase, and the modules in the folder `hbase/`.
#[derive(Clone, Debug)]
pub struct Jars {
    out: PathBuf,
}

impl Jars {
    /// Builds the folder `hbase/`, once in each process. The first build on a machine downloads 110 MB with Maven.
    ///
    /// # Errors
    /// [`Error::NotHere`] if a JDK of version 17 or later or Maven is not installed, or if Maven cannot download a
    /// package; [`Error::Failed`] if a module does not compile.
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

    /// Returns the path of the jar of one module of `hbase/`.
    ///
    /// # Errors
    /// [`Error::Failed`] if there is no module with this name.
    pub fn module(&self, name: &str) -> Result<PathBuf, Error> {
        let folder = self.out.join(name);
        let jars = fs::read_dir(&folder).map_err(failed("looking for a jar"))?;
        jars.filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|found| found == "jar"))
            .ok_or_else(|| Error::Failed(format!("Maven built no jar in {}", folder.display())))
    }

    /// Returns a command that runs `class` in a JVM with HBase, `modules` and their dependencies on the class path.
    ///
    /// # Errors
    /// The errors of [`Jars::module`].
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

    /// Starts HBase and waits until it accepts requests, which takes 7 to 15 s.
    ///
    /// # Errors
    /// [`Error::Failed`], with the end of HBase's log.
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

/// Runs Maven. A lock file ensures that only one process runs Maven at a time.
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

/// JIT compilers that a JVM uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compilers {
    /// Only the compiler C1. HBase starts in two thirds of the time, but stays slower.
    #[default]
    First,
    /// The compilers C1 and C2, the default of the JVM; for benchmarks.
    Both,
}

/// Options of an HBase process.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of region servers in the JVM.
    pub region_servers: u32,
    /// Settings of HBase. Each name begins with `hbase.` or `lineside.`; names and values contain no blanks.
    pub settings: Vec<(String, String)>,
    /// Modules of the folder `hbase/` on the class path in addition to `mini`.
    pub modules: Vec<&'static str>,
    /// JIT compilers of the JVM.
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

/// TCP ports of HBase, all on 127.0.0.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Port of ZooKeeper.
    pub zookeeper: u16,
    /// Port of the master.
    pub master: u16,
    /// Port of the first region server; 0 if the JVM has no region server.
    pub regionserver: u16,
    /// Port of the Thrift 2 gateway, which uses the binary protocol without frames.
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

/// Running HBase. Dropping this value ends HBase and removes its data.
#[derive(Debug)]
pub struct HBase {
    /// Ports on which HBase listens.
    pub ports: Ports,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    said: PathBuf,
    folder: TempDir,
}

impl HBase {
    /// Runs one of the commands of `Commands.java`, and returns the answer.
    ///
    /// # Errors
    /// [`Error::Failed`] with the error of the command.
    pub fn command(&mut self, command: &str) -> Result<String, Error> {
        writeln!(self.input, "{command}").map_err(failed("asking"))?;
        let line = self.line()?;
        match line.strip_prefix("OK") {
            Some(said) => Ok(said.trim().to_owned()),
            None => Err(Error::Failed(format!("{command}: {line}"))),
        }
    }

    /// Returns the process id of the JVM.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the folder of HBase's data, where tests may put further files. The folder is removed together with the
    /// data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the text of HBase's log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line.trim_end().to_owned()),
            Ok(_) => Err(self.failed("the JVM ended")),
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
        // The process may have ended already, so the error is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
