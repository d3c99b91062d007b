//! Tests of `transfer` with a tap device: whole frames in, whole frames out, compared byte for byte. Another library
//! builds and checks the frames.

mod ledger;
#[allow(dead_code, reason = "the tests of spv use its pair of interfaces")]
mod tap;

use ledger::{CREATE, REFER, Server, TRANSFER, may_load_bpf, paper};
use lineside_transfer::store::Mode;
use lineside_wire::{TRANSFER_PORT, TransferCounter as Counter};
use lineside_xdp::{AttachedMode, XdpMode};
use tap::Tap;
use tap::far::{
    CHECK, Encapsulation, PLAIN, UDP, behind_a_tap, checked_payload, is_udp, pseudo_sum, reply, request,
};

const MODES: [(XdpMode, AttachedMode); 2] = [
    (XdpMode::Native, AttachedMode::Native),
    (XdpMode::Generic, AttachedMode::Generic),
];

/// Runs `test` with a server on its own tap device. If that is not possible, prints one line and skips the test.
fn behind(
    mode: Mode,
    xdp: (XdpMode, AttachedMode),
    virtio: bool,
    test: impl FnOnce(&mut Tap, &mut Server) + Send + 'static,
) {
    if !may_load_bpf() {
        return;
    }
    let Some((alone, mut tap)) = behind_a_tap(virtio) else {
        return;
    };
    alone.run(move || {
        let mut server = Server::start(mode, tap::NAME, xdp.0);
        assert_eq!(server.mode, xdp.1);
        test(&mut tap, &mut server);
        server.end();
    });
}

fn sent(way: Encapsulation, payload: &[u8]) -> Vec<u8> {
    request(TRANSFER_PORT, way, payload)
}

/// Checks that the fast path gives the reply `said`, byte for byte.
fn at_line(tap: &mut Tap, way: Encapsulation, asked: &[u8], said: &[u8]) {
    tap.send(&sent(way, asked));
    assert_eq!(tap.receive(is_udp), reply(TRANSFER_PORT, way, said), "{way:?}");
}

/// Returns the reply to `asked`, whether the fast path or the host gives it.
fn answered(tap: &mut Tap, asked: &[u8]) -> Vec<u8> {
    tap.send(&sent(PLAIN, asked));
    checked_payload(TRANSFER_PORT, &tap.receive(is_udp))
}

#[test]
fn transfers_in_every_encapsulation_are_executed() {
    for xdp in MODES {
        behind(Mode::Express, xdp, false, |tap, server| {
            at_line(
                tap,
                PLAIN,
                &paper(CREATE, 0, 1, 0, 100),
                &paper(CREATE, 0, 1, 0, 100),
            );
            at_line(tap, PLAIN, &paper(CREATE, 0, 2, 0, 0), &paper(CREATE, 0, 2, 0, 0));
            let mut holds = 100;
            for (v6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
                let way = Encapsulation { v6, vlan };
                for filler in 0..3 {
                    holds -= 1;
                    let id = 100 - holds;
                    let padded =
                        |amount| [&paper(TRANSFER, id, 1, 2, amount)[..], &[0; 2][..filler]].concat();
                    at_line(tap, way, &padded(1), &padded(holds));
                    at_line(tap, way, &padded(1), &padded(holds));
                    let refer = |amount| [&paper(REFER, 0, 1, 0, amount)[..], &[0; 2][..filler]].concat();
                    at_line(tap, way, &refer(0), &refer(holds));
                }
            }
            assert_eq!(server.count(Counter::Replies), 2 + 4 * 3 * 3);
            assert_eq!(server.count(Counter::Repeats), 4 * 3);
            assert_eq!(server.host_replies(), 0);
        });
    }
}

#[test]
fn durable_writes_are_executed_by_the_host_and_reads_answered_in_xdp() {
    for xdp in MODES {
        behind(Mode::Durable, xdp, false, |tap, server| {
            assert_eq!(
                answered(tap, &paper(CREATE, 1, 1, 0, 9)),
                paper(CREATE, 1, 1, 0, 9)
            );
            assert_eq!(
                answered(tap, &paper(CREATE, 1, 1, 0, 9)),
                paper(CREATE, 1, 1, 0, 9)
            );
            assert_eq!(server.count(Counter::Forwarded), 2);
            for (v6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
                let way = Encapsulation { v6, vlan };
                at_line(tap, way, &paper(REFER, 0, 1, 0, 0), &paper(REFER, 0, 1, 0, 9));
            }
            assert_eq!(server.count(Counter::Replies), 4);
        });
    }
}

#[test]
fn a_transfer_with_a_partial_checksum_is_executed_and_one_with_a_wrong_or_no_checksum_is_not() {
    for xdp in MODES {
        behind(Mode::Express, xdp, true, |tap, server| {
            for account in [1, 2] {
                let create = paper(CREATE, 0, account, 0, 50);
                at_line(tap, PLAIN, &create, &create);
            }
            let good = sent(PLAIN, &paper(TRANSFER, 0, 1, 2, 1));
            let with_check = |check: u16| {
                let mut frame = good.clone();
                frame[CHECK..CHECK + 2].copy_from_slice(&check.to_be_bytes());
                frame
            };
            // A request of a local sender has a partial checksum. It must be executed, and the checksum of the reply
            // must be complete.
            tap.send_partial(&with_check(pseudo_sum(&good)), UDP as u8);
            assert_eq!(
                tap.receive(is_udp),
                reply(TRANSFER_PORT, PLAIN, &paper(TRANSFER, 0, 1, 2, 49))
            );
            // Neither the fast path nor the kernel accepts a request with a wrong checksum, and neither the fast path
            // nor the socket accepts a request without one.
            tap.send(&with_check(pseudo_sum(&good) ^ 0x5555));
            tap.send(&with_check(0));
            let refer = (paper(REFER, 0, 1, 0, 0), paper(REFER, 0, 1, 0, 49));
            at_line(tap, PLAIN, &refer.0, &refer.1);
            let mut without = sent(PLAIN, &refer.0);
            without[CHECK..CHECK + 2].fill(0);
            tap.send(&without);
            assert_eq!(
                tap.receive(is_udp),
                reply(TRANSFER_PORT, PLAIN, &refer.1),
                "a read needs no checksum"
            );
            assert_eq!(server.count(Counter::Replies), 5);
            assert_eq!((server.count(Counter::Forwarded), server.host_replies()), (0, 0));
        });
    }
}

/// In `durable` mode, the fast path forwards the request and the filter of the socket drops it, so the next request
/// must find the accounts unchanged.
#[test]
fn a_durable_write_without_a_checksum_is_not_executed() {
    for xdp in MODES {
        behind(Mode::Durable, xdp, false, |tap, server| {
            for account in [1, 2] {
                assert_eq!(
                    answered(tap, &paper(CREATE, 0, account, 0, 9)),
                    paper(CREATE, 0, account, 0, 9)
                );
            }
            let mut without = sent(PLAIN, &paper(TRANSFER, 0, 1, 2, 1));
            without[CHECK..CHECK + 2].fill(0);
            tap.send(&without);
            // The host answers requests in order, so this reply shows that the request before it had no effect.
            assert_eq!(
                answered(tap, &paper(TRANSFER, 0, 1, 2, 2)),
                paper(TRANSFER, 0, 1, 2, 7)
            );
            assert_eq!(server.count(Counter::Forwarded), 4);
        });
    }
}
