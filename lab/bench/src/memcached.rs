//! memcached as a compared system: one thread, UDP `get` of 32-byte keys with 32-byte values, and the same number of
//! entries as Lineside.

use crate::bpf::memcached_key;
use crate::error::{BenchError, Result, io};
use crate::netns::{NamespacePair, SERVER_ADDRESS};
use crate::servers::{ServerThread, wait};
use crate::sys;
use crate::workload::{Expect, TXIDS, Workload};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Default port of memcached, UDP and TCP.
pub const PORT: u16 = 11_211;
const START_MAX: Duration = Duration::from_secs(5);

/// Returns the path of memcached if it is installed.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).chain(["/usr/bin".into()]);
    places
        .map(|place| place.join("memcached"))
        .find(|file| file.is_file())
}

/// Starts memcached with the workload in it.
pub fn start(pair: &Arc<NamespacePair>, binary: PathBuf, workload: &Arc<Workload>) -> Result<ServerThread> {
    let workload = Arc::clone(workload);
    ServerThread::start(pair, move |stop, ready| {
        // memcached must run as root, because a change of its user would cancel the signal that kills it when this
        // thread ends.
        let arguments = format!("-u root -l {SERVER_ADDRESS} -p {PORT} -U {PORT} -t 1 -m 1024");
        let mut command = Command::new(binary);
        command
            .args(arguments.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = sys::bound_to_thread(&mut command)
            .spawn()
            .map_err(io("starting memcached"))?;
        let _killed_at_the_end = Killed(child);
        fill(&connect()?, &workload)?;
        wait(stop, &ready);
        Ok(())
    })
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended already; waiting for it is still necessary, so that no zombie remains.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect() -> Result<TcpStream> {
    let began = Instant::now();
    loop {
        match TcpStream::connect((SERVER_ADDRESS, PORT)) {
            Ok(stream) => return Ok(stream),
            Err(error) if began.elapsed() > START_MAX => return Err(io("connecting to memcached")(error)),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn fill(stream: &TcpStream, workload: &Workload) -> Result<()> {
    let filling = || {
        let mut out = BufWriter::with_capacity(1 << 16, stream);
        for (number, txid) in workload.txids.iter().enumerate() {
            out.write_all(b"set ")?;
            out.write_all(&memcached_key(txid))?;
            out.write_all(b" 0 0 32 noreply\r\n")?;
            out.write_all(workload.reply(number as u64, Expect::Root))?;
            out.write_all(b"\r\n")?;
        }
        out.write_all(b"stats\r\n")?;
        out.flush()?;
        drop(out);
        let mut items = 0;
        for line in BufReader::new(stream).lines() {
            let line = line?;
            if line == "END" {
                break;
            }
            if let Some(count) = line.strip_prefix("STAT curr_items ") {
                items = count.parse().unwrap_or(0);
            }
        }
        std::io::Result::Ok(items)
    };
    let items: usize = filling().map_err(io("filling memcached"))?;
    if items == TXIDS {
        return Ok(());
    }
    Err(BenchError::Void(format!(
        "memcached has {items} of {TXIDS} entries"
    )))
}
