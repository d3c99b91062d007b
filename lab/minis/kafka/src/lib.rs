//! Kafka broker in one JVM, for tests and benchmarks. Maven fetches its jars (`lab/minis/kafka/java`). The broker
//! listens on free ports of the loopback address and stores its data in a temporary folder. A test can kill and restart
//! it. The broker ends when its value is dropped.
//!
//! ```no_run
//! use lineside_kafka_mini::Jars;
//!
//! let jars = Jars::fetch()?;
//! let mut broker = jars.start(&[])?;
//! println!("Kafka at {}", broker.address());
//! broker.kill();
//! broker.restart()?;
//! # Ok::<(), lineside_kafka_mini::Error>(())
//! ```

use lineside_testkit::free_port;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Reason why Kafka does not run.
#[derive(Debug)]
pub enum Error {
    /// A requirement is not installed on this machine; a test is then skipped.
    NotHere(String),
    /// Kafka is installed, but does not work.
    Failed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotHere(why) => write!(out, "Kafka is not available: {why}"),
            Self::Failed(why) => write!(out, "Kafka: {why}"),
        }
    }
}

impl std::error::Error for Error {}

fn failed<T: std::fmt::Display>(what: &'static str) -> impl Fn(T) -> Error {
    move |why| Error::Failed(format!("{what}: {why}"))
}

/// Configuration of Kafka's log. Everything goes to standard output, which this module searches for the line that says
/// that Kafka runs.
const LOG4J: &str = "log4j.rootLogger=WARN, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d{ISO8601} %-5p %c{1}: %m%n
log4j.logger.kafka.server.KafkaRaftServer=INFO
";
/// Text in the log line that says that Kafka runs.
const RUNS: &str = "Kafka Server started";

/// Jars of Kafka and its dependencies.
#[derive(Clone, Debug)]
pub struct Jars {
    out: PathBuf,
}

impl Jars {
    /// Fetches the jars, once in each process. On the first use on a machine, Maven downloads 46 MB.
    ///
    /// # Errors
    /// [`Error::NotHere`] if Java or Maven is not installed, or if Maven cannot download a package.
    pub fn fetch() -> Result<Self, Error> {
        static FETCHED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        for tool in ["java", "mvn"] {
            let version = Command::new(tool).arg("-version").output();
            if !version.is_ok_and(|output| output.status.success()) {
                return Err(Error::NotHere(format!("{tool} is not installed")));
            }
        }
        match FETCHED.get_or_init(package) {
            Ok(out) => Ok(Self { out: out.clone() }),
            Err(why) => Err(Error::NotHere(format!("Maven: {why}"))),
        }
    }

    /// Starts a broker that is its own controller, with `settings` in addition to the defaults. Waits until it accepts
    /// requests, which takes 5 to 15 s.
    ///
    /// # Errors
    /// [`Error::Failed`], with the end of the broker's log.
    pub fn start(&self, settings: &[(&str, &str)]) -> Result<Broker, Error> {
        let folder = tempfile::tempdir().map_err(failed("making a folder"))?;
        // The broker uses the same ports after a restart.
        let (port, controller) = (free_port(), free_port());
        let mut properties = format!(
            "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=1048577
auto.create.topics.enable=true
",
            folder.path().join("data").display()
        );
        for (name, value) in settings {
            properties.push_str(&format!("{name}={value}\n"));
        }
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write("server.properties", &properties).map_err(failed("writing its settings"))?;
        write("log4j.properties", LOG4J).map_err(failed("writing its settings"))?;
        let format = self
            .java(folder.path())
            .args([
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qg",
                "-c",
            ])
            .arg(folder.path().join("server.properties"))
            .output()
            .map_err(failed("starting java"))?;
        if !format.status.success() {
            let said = [format.stdout, format.stderr].concat();
            return Err(Error::Failed(String::from_utf8_lossy(&said).into_owned()));
        }
        let mut broker = Broker {
            jars: self.clone(),
            port,
            child: None,
            folder,
        };
        broker.restart()?;
        Ok(broker)
    }

    fn java(&self, folder: &Path) -> Command {
        let mut java = Command::new("java");
        // Without the second compiler, the broker starts in two thirds of the time.
        java.args([
            "-Xms64m",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]);
        java.arg(format!(
            "-Dlog4j.configuration=file:{}",
            folder.join("log4j.properties").display()
        ));
        java.args(["-cp", &format!("{}/*", self.out.join("lib").display())]);
        java.current_dir(folder).stdin(Stdio::null());
        java
    }
}

/// Runs Maven. A lock file ensures that only one process runs Maven at a time.
fn package() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let out = std::path::absolute(target.join("kafka")).map_err(|error| error.to_string())?;
    fs::create_dir_all(&out).map_err(|error| error.to_string())?;
    let lock = File::create(out.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let maven = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(root.join("lab/minis/kafka/java/pom.xml"))
        .arg(format!("-Dlineside.out={}", out.display()))
        .arg("package")
        .output()
        .map_err(|error| error.to_string())?;
    match maven.status.success() {
        true => Ok(out),
        false => Err(String::from_utf8_lossy(&maven.stdout).into_owned()),
    }
}

/// Running broker. Dropping this value ends the broker and removes its data.
#[derive(Debug)]
pub struct Broker {
    jars: Jars,
    port: u16,
    child: Option<Child>,
    folder: TempDir,
}

impl Broker {
    /// Returns the address on which the broker listens, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills the broker with SIGKILL, as a power cut would end it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have ended already, so the error is ignored.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts the broker at the same address with its data, and waits until it accepts requests.
    ///
    /// # Errors
    /// [`Error::Failed`], with the end of the broker's log.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill();
        let said = self.folder.path().join("said");
        let error_log = File::create(&said).map_err(failed("making a file"))?;
        let mut child = self
            .jars
            .java(self.folder.path())
            .arg("kafka.Kafka")
            .arg(self.folder.path().join("server.properties"))
            .stdout(Stdio::piped())
            .stderr(error_log)
            .spawn()
            .map_err(failed("starting java"))?;
        let output = child.stdout.take();
        self.child = Some(child);
        let mut lines = BufReader::new(output.ok_or_else(|| Error::Failed("no pipe".into()))?).lines();
        let mut before = Vec::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.contains(RUNS) {
                // Another thread reads the rest of the output, so that the broker does not block on a full pipe.
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
                return Ok(());
            }
            before.push(line);
        }
        let last = before.len().saturating_sub(20);
        let error_log = fs::read_to_string(said).unwrap_or_default();
        Err(Error::Failed(format!(
            "the broker ended: {}\n{error_log}",
            before[last..].join("\n")
        )))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}
