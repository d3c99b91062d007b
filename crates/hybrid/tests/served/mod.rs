//! A node with a UDP port, and a client of that port.

#![allow(dead_code, reason = "each test uses a part of it")]

use crate::common::*;
use lineside_client::hybrid::udp::Client as Asker;
use lineside_fastpath::{Range, Readers};
use lineside_hybrid::udp::{HybridFastPath, HybridHost};
use lineside_hybrid::{Code, Node};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::answer::Answered;
use lineside_messages::hybrid::request::{MemberId, Version};
use lineside_messages::hybrid::signing::Identity;
use lineside_messages::hybrid::udp::read_answer;
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::{DropReason, Status};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

pub const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// A node with a UDP port. The datapath is dropped before the node, as in the daemon.
pub struct ServedNode {
    pub datapath: SocketDatapath,
    pub node: Arc<Node<SimDisk>>,
}

impl ServedNode {
    pub fn new(node: Node<SimDisk>, trusted: &[Range], queue: usize) -> ServedNode {
        let node = Arc::new(node);
        let host = HybridHost::new(node.clone(), trusted.to_vec());
        let options = SocketOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            threads: 1,
            queue,
        };
        let readers = Readers::new(false);
        let datapath =
            SocketDatapath::start_async(options, Arc::new(HybridFastPath), Arc::new(host), &readers);
        let datapath = datapath.unwrap();
        ServedNode { datapath, node }
    }

    pub fn address(&self) -> SocketAddr {
        self.datapath.local_addr()
    }

    /// Waits until all received datagrams are counted as answered or dropped. A datagram may be counted shortly after
    /// its answer was sent.
    pub fn settle(&self) {
        let counts = self.datapath.counts();
        let end = Instant::now() + REPLY_TIMEOUT;
        let left = || {
            let dropped: u64 = counts.drops.iter().map(|count| count.load(Relaxed)).sum();
            let answered = counts.fastpath_replies.load(Relaxed) + counts.host_replies.load(Relaxed);
            counts.received.load(Relaxed) - answered - dropped - counts.oversize.load(Relaxed)
        };
        while left() > 0 {
            assert!(
                Instant::now() < end,
                "{} datagrams are neither answered nor dropped",
                left()
            );
            std::thread::yield_now();
        }
    }

    pub fn drops(&self, reason: DropReason) -> u64 {
        self.datapath.counts().drops[reason as usize].load(Relaxed)
    }
}

pub fn serve(seed: u64) -> ServedNode {
    ServedNode::new(start(SimDisk::new(seed)), &[], 4096)
}

pub fn asker(server: SocketAddr, member: MemberId) -> Asker {
    let identity = Identity {
        database: Client::new().database,
        member,
        key: 0,
        lane: 7,
        secret: member_key(member),
    };
    Asker::connect(server, identity, REPLY_TIMEOUT).unwrap()
}

pub fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    socket
}

/// Sends a datagram and returns the reply.
pub fn asked(socket: &UdpSocket, datagram: &[u8]) -> Vec<u8> {
    let mut reply = [0; 2000];
    socket.send(datagram).unwrap();
    let bytes = socket.recv(&mut reply).unwrap();
    assert!(bytes <= datagram.len().max(1200));
    reply[..bytes].to_vec()
}

pub fn said(reply: &[u8]) -> (u64, Answered) {
    let (id, status, body) = read_answer(reply).unwrap();
    assert_eq!(status, Status::Ok);
    (id, Answered::decode(body).unwrap())
}

pub fn placed(answered: &Answered) -> Version {
    match answered {
        Answered::Placed {
            code: Code::Done,
            version,
        } => *version,
        other => panic!("not done: {other:?}"),
    }
}
