//! A host that several threads call at once.

use lineside_fastpath::{DropReason, FastPath, Host, Reader, Readers, Reply, Source, Verdict};
use lineside_net::{SocketDatapath, SocketOptions};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Number of requests that wait for one another.
const TOGETHER: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);

struct Nothing;

impl FastPath for Nothing {
    fn answer(&self, _: Source, _: u64, _: &[u8], _: &mut Reply) -> Verdict {
        Verdict::Forward
    }
}

/// Host that answers no request until all have arrived.
#[derive(Default)]
struct All {
    asked: Mutex<usize>,
    changed: Condvar,
}

impl Host for All {
    fn serve(&self, _: Source, request: &[u8], reply: &mut Reply, _: &Reader) -> Verdict {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        self.changed.notify_all();
        let is_short = |asked: &mut usize| *asked < TOGETHER;
        let (_asked, waited) = self
            .changed
            .wait_timeout_while(asked, PATIENCE, is_short)
            .unwrap();
        match !waited.timed_out() && reply.put(request) {
            true => Verdict::Reply,
            false => Verdict::Drop(DropReason::NotARequest),
        }
    }
}

#[test]
fn requests_that_wait_for_the_host_wait_side_by_side() {
    let options = SocketOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        threads: 1,
        queue: 64,
    };
    let host = Arc::new(All::default());
    let fastpath = Arc::new(Nothing);
    let readers = Readers::default();
    let datapath = SocketDatapath::start_side_by_side(options, fastpath, host, TOGETHER, &readers).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
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
