//! Requests without a UDP checksum, as IPv4 allows: reads are answered, writes only with `allow_zero_checksum`.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const CREATE: u32 = 1;
const TRANSFER: u32 = 3;
const REFER: u32 = 4;

/// Server with the socket datapath; killed when dropped.
struct Server(Child, SocketAddr);

impl Server {
    fn start(data: &TempDir, mode: &str, listen: &str, allow: bool) -> Self {
        let config = data.path().join("lineside.toml");
        std::fs::write(
            &config,
            format!("[datapath]\nthreads = 1\n[transfer]\nallow_zero_checksum = {allow}\n"),
        )
        .expect("writing");
        let mut child = Command::new(env!("CARGO_BIN_EXE_lineside"))
            .args([
                "transfer",
                "serve",
                "--datapath",
                "socket",
                "--console",
                "127.0.0.1:0",
            ])
            .args([
                "--account-bits",
                "8",
                "--mode",
                mode,
                "--listen",
                listen,
                "--config",
            ])
            .arg(&config)
            .arg("--data")
            .arg(data.path().join("ledger"))
            .env_remove("INVOCATION_ID")
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut port = 0;
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            if let Some(rest) = line.strip_prefix("transfer on ") {
                let address: SocketAddr = rest.split(' ').next().expect("text").parse().expect("an address");
                port = address.port();
            }
            if line.ends_with(" ends it") {
                break;
            }
        }
        Self(child, ([127, 0, 0, 1], port).into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn socket(server: SocketAddr, with_checksum: bool) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server).expect("connecting");
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    let without = libc::c_int::from(!with_checksum);
    // SAFETY: the descriptor is open, and the value outlives the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            std::ptr::from_ref(&without).cast(),
            size_of_val(&without) as u32,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    socket
}

fn paper(command: u32, id: u32, source: u32, destination: u32, amount: u32) -> Vec<u8> {
    [command, id, source, destination, amount]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect()
}

fn ask(socket: &UdpSocket, request: &[u8]) -> Vec<u8> {
    socket.send(request).expect("sending");
    let mut reply = vec![0; 2048];
    let bytes = socket.recv(&mut reply).expect("an answer");
    reply.truncate(bytes);
    reply
}

#[test]
fn writes_without_a_udp_checksum_are_dropped_unless_the_option_allows_them() {
    for (mode, listen) in [
        ("durable", "127.0.0.1:0"),
        ("express", "127.0.0.1:0"),
        ("durable", "[::]:0"),
    ] {
        for allow in [false, true] {
            let data = TempDir::new().expect("a directory");
            let server = Server::start(&data, mode, listen, allow);
            let (with, without) = (socket(server.1, true), socket(server.1, false));
            for account in [1, 2] {
                let create = paper(CREATE, 0, account, 0, 50);
                assert_eq!(ask(&with, &create), create);
            }
            let refer = |amount| paper(REFER, 0, 1, 0, amount);
            assert_eq!(ask(&without, &refer(0)), refer(50), "a read needs no checksum");
            // Builds native requests: operation 3 (OPEN) changes state, operations 2 and 5 only read.
            let native = |op: u8, body: usize| {
                [
                    &[0x4c, 0x53, 1, op, 0, 0, 0, body as u8][..],
                    &[0; 48][..8 + body],
                ]
                .concat()
            };
            assert_eq!(ask(&without, &native(5, 40))[5], 5, "no session, but an answer");
            assert_eq!(ask(&without, &native(2, 8))[5], 2, "a bad request, but an answer");
            let moved = paper(TRANSFER, 1, 1, 2, 1);
            let mut left = 50;
            if allow {
                left -= 1;
                assert_eq!(ask(&without, &moved), paper(TRANSFER, 1, 1, 2, left));
                assert_eq!(ask(&without, &native(3, 40))[5], 0, "a challenge");
            } else {
                without.send(&moved).expect("sending");
                without.send(&native(3, 40)).expect("sending");
            }
            // One thread handles requests in order. If the server had executed the request, the balance in this reply
            // would show it.
            assert_eq!(
                ask(&with, &paper(TRANSFER, 2, 1, 2, 2)),
                paper(TRANSFER, 2, 1, 2, left - 2)
            );
            assert_eq!(ask(&without, &refer(0)), refer(left - 2), "{mode} {listen}");
        }
    }
}
