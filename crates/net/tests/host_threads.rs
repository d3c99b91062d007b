//! A host that several threads call at the same time.

use lineside_fastpath::{DropReason, FastPath, Host, Reader, Readers, Reply, Source, Verdict};
use lineside_net::{SocketDatapath, SocketOptions};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Number of requests that the host must receive before it answers any of them.
const TOGETHER: usize = 4;
const READ_TIMEOUT: Duration = Duration::from_secs(20);

struct ForwardingFastPath;

impl FastPath for ForwardingFastPath {
    fn answer(&self, _: Source, _: u64, _: &[u8], _: &mut Reply) -> Verdict {
        Verdict::Forward
    }
}

/// Host that answers no request until all have arrived.
#[derive(Default)]
struct HostThatWaitsForAll {
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Host for HostThatWaitsForAll {
    fn serve(&self, _: Source, request: &[u8], reply: &mut Reply, _: &Reader) -> Verdict {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.changed.notify_all();
        let is_short = |arrived: &mut usize| *arrived < TOGETHER;
        let (_arrived, waited) = self
            .changed
            .wait_timeout_while(arrived, READ_TIMEOUT, is_short)
            .unwrap();
        match !waited.timed_out() && reply.put(request) {
            true => Verdict::Reply,
            false => Verdict::Drop(DropReason::NotARequest),
        }
    }
}

#[test]
fn host_threads_serve_requests_in_parallel() {
    let options = SocketOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        threads: 1,
        queue: 64,
    };
    let host = Arc::new(HostThatWaitsForAll::default());
    let fastpath = Arc::new(ForwardingFastPath);
    let readers = Readers::default();
    let datapath =
        SocketDatapath::start_with_host_threads(options, fastpath, host, TOGETHER, &readers).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    client.connect(datapath.local_addr()).unwrap();
    let requests: BTreeSet<Vec<u8>> = (0..TOGETHER as u8).map(|number| vec![number; 8]).collect();
    for request in &requests {
        client.send(request).unwrap();
    }
    let mut reply = [0; 64];
    let replies = requests.iter().map(|_| {
        let length = client.recv(&mut reply).unwrap();
        reply[..length].to_vec()
    });
    assert_eq!(replies.collect::<BTreeSet<_>>(), requests);
}
