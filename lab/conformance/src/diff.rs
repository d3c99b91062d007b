//! Comparison of datapaths with the Rust model: the same frames go through both, and the verdict, every byte and the
//! counters must be equal.

pub mod column;
#[cfg(feature = "rtl")]
pub mod rtl;
pub mod spv;
pub mod transfer;

use lineside_testkit::Random;
use lineside_xdp::XdpError;

pub use crate::frames::Datapath;

use lineside_fastpath::{DropReason, FrameHandler, FrameVerdict, lease};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing};
use lineside_wire::{AnsweredOp, FastPathList};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the endpoint of the compared datapaths: an interface with four addresses, and without a MAC address if it is
/// `loopback`.
fn endpoint(loopback: bool) -> Endpoint {
    let own = ["10.0.0.2", "192.168.7.2", "fd00::2", "fe80::2"]
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect::<Vec<_>>();
    let mac = if loopback { [0; 6] } else { [2, 0, 0, 0, 0, 2] };
    let mut endpoint = Endpoint::new(mac, loopback, &own).unwrap_or_default();
    endpoint.set_broadcast([10, 0, 0, 2].into(), [10, 0, 0, 255].into());
    endpoint
}

/// Generator of seeded frames to one endpoint: valid frames, frames with invalid source addresses, and mutated and
/// truncated frames.
pub struct Frames {
    random: Random,
    endpoint: Endpoint,
    port: u16,
    payloads: Vec<Vec<u8>>,
}

const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xaa];
/// Minimum length of a frame for BPF_PROG_TEST_RUN, in bytes.
const ETH_BYTES: usize = 14;

impl Frames {
    /// Returns a generator of frames to `port` of `endpoint`. Most frames contain one of `payloads`. The same seed
    /// gives the same frames.
    pub fn new(seed: u64, endpoint: &Endpoint, port: u16, payloads: Vec<Vec<u8>>) -> Self {
        Self {
            random: Random(seed.wrapping_mul(2).wrapping_add(1)),
            endpoint: endpoint.clone(),
            port,
            payloads,
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        if self.payloads.is_empty() || self.random.one_in(6) {
            let bytes = [0, 1, 15, 16, 17, 31, 32, 33, 64, 120, 500][self.random.index(11)];
            return (0..bytes).map(|_| self.random.next() as u8).collect();
        }
        let chosen = self.random.index(self.payloads.len());
        self.payloads[chosen].clone()
    }

    fn source(&mut self, v6: bool) -> IpAddr {
        let own = if v6 {
            self.endpoint.v6().next().map(IpAddr::from)
        } else {
            self.endpoint.v4().next().map(IpAddr::from)
        };
        let usual: IpAddr = if v6 {
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9).into()
        } else {
            Ipv4Addr::new(10, 0, 0, 9).into()
        };
        let odd: [IpAddr; 4] = if v6 {
            [
                Ipv6Addr::UNSPECIFIED.into(),
                Ipv6Addr::LOCALHOST.into(),
                "ff02::1".parse().unwrap_or(usual),
                usual,
            ]
        } else {
            [
                Ipv4Addr::UNSPECIFIED.into(),
                self.endpoint
                    .v4_with_broadcasts()
                    .next()
                    .map_or(usual, |(_, broadcast)| broadcast.into()),
                Ipv4Addr::BROADCAST.into(),
                Ipv4Addr::new(239, 1, 2, 3).into(),
            ]
        };
        match self.random.index(16) {
            0 => own.unwrap_or(usual),
            1 => odd[self.random.index(4)],
            _ => usual,
        }
    }

    /// Returns the next frame.
    pub fn next_frame(&mut self) -> Vec<u8> {
        let payload = self.payload();
        self.frame_of(&payload)
    }

    /// Returns a frame with this payload, or a mutation of it.
    fn frame_of(&mut self, payload: &[u8]) -> Vec<u8> {
        let v6 = self.random.one_in(3);
        let owned: Vec<IpAddr> = match v6 {
            true => self.endpoint.v6().map(IpAddr::from).collect(),
            false => self.endpoint.v4().map(IpAddr::from).collect(),
        };
        let source = self.source(v6);
        let destination = match owned.len() {
            0 => source,
            _ if self.random.one_in(16) => source,
            count => owned[self.random.index(count)],
        };
        let addressing = Addressing {
            source_mac: if self.random.one_in(32) {
                [1, 0, 0, 0, 0, 1]
            } else {
                PEER_MAC
            },
            destination_mac: if self.random.one_in(16) {
                PEER_MAC
            } else {
                self.endpoint.mac
            },
            vlan: self.random.one_in(4).then_some(7),
            source,
            destination,
            source_port: if self.random.one_in(12) {
                [0, 7701, 7705, self.port][self.random.index(4)]
            } else {
                40_000
            },
            destination_port: if self.random.one_in(16) { 53 } else { self.port },
        };
        let mut frame = vec![0; 1514];
        let used = frame::build(&mut frame, &addressing, payload).unwrap_or(0);
        let padding = if self.random.one_in(4) {
            self.random.index(19)
        } else {
            0
        };
        frame.truncate((used + padding).max(60));
        if self.random.one_in(3) {
            for _ in 0..=self.random.index(3) {
                let last = if self.random.one_in(2) { 80 } else { frame.len() };
                let at = self.random.index(frame.len().min(last));
                frame[at] = if self.random.one_in(2) {
                    self.random.next() as u8
                } else {
                    frame[at] ^ (1 << self.random.index(8))
                };
            }
        }
        if self.random.one_in(8) {
            frame.truncate(ETH_BYTES + self.random.index(frame.len() - ETH_BYTES));
        }
        frame
    }
}

/// Counts of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffCounts {
    /// Number of compared frames.
    pub frames: u64,
    /// Number of frames that were answered.
    pub transmitted: u64,
    /// Number of frames that were passed to the host.
    pub passed: u64,
    /// Number of frames that were dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Kinds of requests that were answered.
    pub answered: AnsweredOps,
}

/// Kinds of requests that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnsweredOps {
    paper: bool,
    /// One bit for each code of a native operation.
    native: [u64; 4],
}

impl AnsweredOps {
    fn insert(&mut self, op: AnsweredOp) {
        match op {
            AnsweredOp::Paper => self.paper = true,
            AnsweredOp::Native(code) => self.native[usize::from(code / 64)] |= 1 << (code % 64),
        }
    }

    /// Returns true if a request of this kind was answered.
    pub fn contains(&self, op: AnsweredOp) -> bool {
        match op {
            AnsweredOp::Paper => self.paper,
            AnsweredOp::Native(code) => self.native[usize::from(code / 64)] >> (code % 64) & 1 != 0,
        }
    }
}

/// Requests that the compared datapaths may answer, as `spec/` lists them.
#[derive(Clone, Copy, Debug)]
pub struct ListedRequests<'a> {
    /// List of the service in `spec/`.
    pub list: &'a FastPathList,
    /// Names of the compared datapaths, as the list spells them.
    pub datapaths: &'a [&'a str],
}

impl DiffCounts {
    /// Counts a frame with this verdict.
    fn count(&mut self, verdict: FrameVerdict) {
        self.frames += 1;
        match verdict {
            FrameVerdict::Transmit => self.transmitted += 1,
            FrameVerdict::Pass => self.passed += 1,
            FrameVerdict::Drop(reason) => self.dropped[reason as usize] += 1,
        }
    }

    /// Counts the kind of an answered request, and checks that `listed` has this kind for every compared datapath.
    ///
    /// # Errors
    /// [`DiffError::Differs`] if the list does not have this kind for one of the datapaths.
    fn check_listed(
        &mut self,
        listed: &ListedRequests<'_>,
        number: u64,
        request: &[u8],
        reply: &[u8],
    ) -> Result<(), DiffError> {
        let Some(datagram) = frame::parse(request) else {
            return Ok(());
        };
        let op = AnsweredOp::of(&request[datagram.payload()], &reply[datagram.payload()]);
        self.answered.insert(op);
        let Some(datapath) = listed
            .datapaths
            .iter()
            .find(|datapath| !listed.list.answers(datapath, op))
        else {
            return Ok(());
        };
        Err(DiffError::Differs {
            number,
            what: format!(
                "{datapath} answered {} ({op:?}), which spec/ does not list for it",
                listed.list.name(op)
            ),
            request: request.to_vec(),
            model: reply.to_vec(),
            datapath: reply.to_vec(),
        })
    }

    /// Sends a frame through two datapaths, each with its own store, and compares the results. An answer must be to a
    /// request that `listed` has.
    ///
    /// # Errors
    /// [`DiffError::Differs`] if the verdict or a byte differs, or if the answered request is not listed; or an error
    /// of the kernel.
    fn compare_frame(
        &mut self,
        number: u64,
        request: &[u8],
        listed: &ListedRequests<'_>,
        model: &mut dyn Datapath,
        datapath: &mut dyn Datapath,
    ) -> Result<(), DiffError> {
        let (said, model) = model.run(request)?;
        let (verdict, left) = datapath.run(request)?;
        self.count(said);
        let same = match (said, verdict) {
            (FrameVerdict::Drop(_), FrameVerdict::Drop(_)) => true,
            (said, verdict) => said == verdict && model == left,
        };
        if same {
            return match said {
                FrameVerdict::Transmit => self.check_listed(listed, number, request, &left),
                FrameVerdict::Pass | FrameVerdict::Drop(_) => Ok(()),
            };
        }
        Err(DiffError::Differs {
            number,
            what: format!("the model returned {said:?}, the datapath {verdict:?}"),
            request: request.to_vec(),
            model,
            datapath: left,
        })
    }

    /// Adds the counts of another comparison.
    pub fn add(&mut self, other: &Self) {
        self.answered.paper |= other.answered.paper;
        for (all, more) in self.answered.native.iter_mut().zip(other.answered.native) {
            *all |= more;
        }
        self.frames += other.frames;
        self.transmitted += other.transmitted;
        self.passed += other.passed;
        for (sum, count) in self.dropped.iter_mut().zip(&other.dropped) {
            *sum += count;
        }
    }
}

/// Reason why the comparison stopped.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The results of the two datapaths differ.
    #[error(
        "frame {number} differs: {what}\n  request {request:02x?}\n  model   {model:02x?}\n  datapath   {datapath:02x?}"
    )]
    Differs {
        /// Number of the frame, counted from 0.
        number: u64,
        /// Description of the difference.
        what: String,
        /// Frame that was sent.
        request: Vec<u8>,
        /// Output of the model.
        model: Vec<u8>,
        /// Output of the datapath.
        datapath: Vec<u8>,
    },
    /// The kernel did not run the program.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// Memory for the comparison could not be allocated.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Sends `count` frames through the model of `line` and through `datapath`, which use the same store.
///
/// # Errors
/// The first frame whose verdict, bytes or drop counter differ; or an error of the kernel.
pub fn compare(
    frames: &mut Frames,
    count: u64,
    line: &FrameHandler<'_>,
    datapath: &mut dyn Datapath,
) -> Result<DiffCounts, DiffError> {
    compare_with_list(frames, count, None, line, datapath)
}

/// Compares like [`compare`], and checks each answer against the requests that `spec/` lists for the datapaths, if
/// `listed` is given.
///
/// # Errors
/// The errors of [`compare`], and [`DiffError::Differs`] for an answer to a request that the list does not have.
fn compare_with_list(
    frames: &mut Frames,
    count: u64,
    listed: Option<&ListedRequests<'_>>,
    line: &FrameHandler<'_>,
    datapath: &mut dyn Datapath,
) -> Result<DiffCounts, DiffError> {
    let mut seen = DiffCounts::default();
    let before = datapath.drops()?;
    for number in 0..count {
        let request = frames.next_frame();
        let mut model = request.clone();
        let said = line.answer(lease::now_ns(), &mut model);
        let (verdict, left) = datapath.run(&request)?;
        seen.count(said);
        let same_verdict = match (said, verdict) {
            (FrameVerdict::Drop(_), FrameVerdict::Drop(_)) => true,
            (said, verdict) => said == verdict,
        };
        let dropped = matches!(said, FrameVerdict::Drop(_));
        if !same_verdict || (!dropped && model != left) {
            let what = format!("the model returned {said:?}, the datapath {verdict:?}");
            return Err(DiffError::Differs {
                number,
                what,
                request,
                model,
                datapath: left,
            });
        }
        if let (FrameVerdict::Transmit, Some(listed)) = (said, listed) {
            seen.check_listed(listed, number, &request, &left)?;
        }
    }
    let after = datapath.drops()?;
    for reason in DropReason::ALL {
        let (index, name) = (reason as usize, reason.name());
        let counted = after[index] - before[index];
        if counted != seen.dropped[index] {
            let what = format!(
                "the model dropped {} frames as {name}, the datapath {counted}",
                seen.dropped[index]
            );
            let empty = Vec::new;
            return Err(DiffError::Differs {
                number: count,
                what,
                request: empty(),
                model: empty(),
                datapath: empty(),
            });
        }
    }
    Ok(seen)
}
