//! Conformance of the odometer: for its vectors and for random frames, the Rust model, the natively compiled C code and
//! the XDP program give the same results.

mod odometer;

use lineside_conformance::diff::{Frames, compare};
use lineside_conformance::frames::DatapathKind;
use lineside_conformance::vector_check::check_vector;
use lineside_conformance::vectors::{self, ExpectedVerdict, Lease, Vector};
use lineside_example_service::fastpath::{OdometerFastPath, Store};
use lineside_example_service::host::OdometerHost;
use lineside_fastpath::{DropReason, FrameHandler, Host, Readers, Reply, Source, Verdict, lease};
use lineside_testkit::skipped;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{
    NATIVE_REPLY_BIT, ODOMETER_OP_ADD, ODOMETER_OP_READ, ODOMETER_PORT, OdometerCounter, native,
};
use lineside_xdp::XdpError;
use odometer::{FrameDatapath, Odometer};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use zerocopy::IntoBytes;

const KINDS: [DatapathKind; 3] = [DatapathKind::Socket, DatapathKind::Native, DatapathKind::Xdp];

/// Content of a vector file in `vectors/odometer`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    state: State,
    endpoint: vectors::Endpoint,
    #[serde(rename = "vector")]
    vectors: Vec<Vector>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    lease: Lease,
    number: u64,
}

impl State {
    /// Writes this state into a store, and returns its host.
    fn set(self, store: &Arc<Store>) -> OdometerHost {
        let host = OdometerHost::new(Arc::clone(store));
        host.add(self.number).expect("no overflow");
        let until_ns = &store.as_slice()[0].lease_until_ns;
        match self.lease {
            Lease::Valid => lease::renew(until_ns, 1 << 40),
            Lease::Over => lease::end(until_ns),
        }
        host
    }
}

fn files() -> Vec<File> {
    let parse = |name: &str, text: &str| toml::from_str(text).map_err(|error| format!("{name}: {error}"));
    vectors::load_with("odometer", parse).unwrap_or_else(|fault| panic!("{fault}"))
}

fn endpoint(mac: [u8; 6], addresses: &[IpAddr]) -> Endpoint {
    Endpoint::new(mac, false, addresses).expect("an endpoint takes two addresses")
}

/// Opens a datapath and its store. If loading BPF programs is not permitted, prints one line and returns `None`.
fn open(kind: DatapathKind, endpoint: &Endpoint) -> Option<(FrameDatapath, Arc<Store>)> {
    match FrameDatapath::open(kind, &(), endpoint, ODOMETER_PORT) {
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            None
        }
        opened => Some(opened.expect("a datapath")),
    }
}

#[test]
fn every_datapath_gives_the_replies_of_the_vectors() {
    for file in files() {
        let endpoint = endpoint(file.endpoint.mac.0, &file.endpoint.addresses);
        for kind in KINDS {
            let Some((mut datapath, store)) = open(kind, &endpoint) else {
                continue;
            };
            let _host = file.state.set(&store);
            for vector in &file.vectors {
                let names = OdometerCounter::ALL.map(OdometerCounter::name);
                check_vector::<Odometer>(vector, &mut datapath, &names)
                    .unwrap_or_else(|fault| panic!("{}: {fault}", kind.name()));
            }
            println!("{}: {} vectors", kind.name(), file.vectors.len());
        }
    }
}

#[test]
fn the_host_gives_the_replies_of_the_vectors() {
    let from = Source::from(SocketAddr::from(([10, 0, 0, 9], 40000)));
    for file in files() {
        for vector in &file.vectors {
            let store = Arc::new(Store::anonymous(1).expect("memory"));
            let (host, readers) = (file.state.set(&store), Readers::default());
            let mut reply = Reply::default();
            let verdict = host.serve(from, &vector.request.0, &mut reply, &readers.join());
            let said = match verdict {
                Verdict::Reply => ExpectedVerdict::Reply,
                Verdict::Forward => ExpectedVerdict::Forward,
                Verdict::Drop(reason) => ExpectedVerdict::Drop(reason.name().into()),
            };
            assert_eq!(Some(said), vector.host, "{:?}", vector.what);
            let expected = vector.reply.clone().unwrap_or_default();
            assert_eq!(reply.as_bytes(), expected.0, "{:?}", vector.what);
            let is_longer = reply.as_bytes().len() > vector.request.0.len();
            assert!(!is_longer, "{:?}", vector.what);
        }
    }
}

/// Returns requests of each kind, and almost valid ones; [`Frames`] mutates them.
fn payloads() -> Vec<Vec<u8>> {
    let request = |op: u8, number: u64| {
        let header = native::request_header(op, number, 8);
        [header.as_bytes(), &number.to_be_bytes()].concat()
    };
    let mut payloads = vec![request(ODOMETER_OP_READ, 0); 8];
    payloads.extend([
        request(ODOMETER_OP_READ, 1),
        request(ODOMETER_OP_ADD, 3),
        request(9, 0),
    ]);
    payloads.push(request(ODOMETER_OP_READ | NATIVE_REPLY_BIT, 0));
    payloads
}

#[test]
fn random_frames_have_the_same_verdict_in_c_and_in_the_model() {
    const COUNT: u64 = 20_000;
    let addresses = ["10.0.0.2", "fd00::2"].map(|text| text.parse().expect("an address"));
    let endpoint = endpoint([2, 0, 0, 0, 0, 2], &addresses);
    for (kind, lease) in [
        (DatapathKind::Native, Lease::Valid),
        (DatapathKind::Native, Lease::Over),
        (DatapathKind::Xdp, Lease::Valid),
    ] {
        let Some((mut datapath, store)) = open(kind, &endpoint) else {
            continue;
        };
        let _host = State {
            lease,
            number: 1 << 40,
        }
        .set(&store);
        let fastpath = OdometerFastPath {
            store,
            counters: Default::default(),
        };
        let line = FrameHandler {
            endpoint: &endpoint,
            port: ODOMETER_PORT,
            fastpath: &fastpath,
        };
        let mut frames = Frames::new(7, &endpoint, ODOMETER_PORT, payloads());
        let seen =
            compare(&mut frames, COUNT, &line, &mut datapath).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(datapath.counters().expect("counters"), fastpath.counters.read());
        // The comparison is meaningful only if every outcome has occurred.
        assert_eq!(seen.transmitted > COUNT / 20, lease == Lease::Valid, "{seen:?}");
        assert!(seen.passed > COUNT / 20, "{seen:?}");
        assert!(seen.dropped[DropReason::ReplyBit as usize] > 0, "{seen:?}");
        assert!(seen.dropped[DropReason::NotARequest as usize] > 0, "{seen:?}");
    }
}
