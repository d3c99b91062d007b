//! Tests of watchers: they are notified of durable writes only, in order, and only of keys that they may read.

mod common;

use common::*;
use crossbeam_channel::{Receiver, bounded};
use lineside_hybrid::watch::{Notification, Sink, Watching};
use lineside_hybrid::{Code, Node};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::change::Change;
use lineside_messages::hybrid::request::{Body, MemberId, Version};

fn sink(room: usize) -> (Sink, Receiver<Notification>) {
    let (send, receive) = bounded(room);
    (Box::new(move |told| send.try_send(told).is_ok()), receive)
}

fn watch(
    node: &Node<SimDisk>,
    client: &mut Client,
    member: MemberId,
    prefix: &str,
) -> (Watching, Receiver<Notification>) {
    let (sink, told) = sink(100);
    let prefix = prefix.as_bytes();
    let request = client.sign(member, Body::Watch { prefix });
    (node.watch(request, sink).unwrap(), told)
}

fn events(told: &Receiver<Notification>) -> Vec<(String, Version, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let one = |told| match told {
        Notification::Event(event) => (text(&event.key), event.version, event.value.as_deref().map(text)),
        Notification::Ended(code) => panic!("ended: {code:?}"),
    };
    told.try_iter().map(one).collect()
}

#[test]
fn a_watcher_is_notified_of_writes_in_order_before_the_writer_is_answered() {
    let node = start(SimDisk::new(1));
    let mut client = Client::new();
    assert_eq!(code(&node, client.set(5, "a/0", None, "before")), Code::Done);
    let (watching, told) = watch(&node, &mut client, 6, "a/");
    assert_eq!(watching.block, 1);
    for number in 1..=5 {
        let key = format!("a/{}", number % 2);
        assert_eq!(
            code(&node, client.set(5, &key, None, &number.to_string())),
            Code::Done
        );
        assert_eq!(code(&node, client.set(5, "b", None, "elsewhere")), Code::Done);
    }
    assert_eq!(
        code(&node, client.sign(5, Body::delete(b"a/0", None))),
        Code::Done
    );
    // A writer is answered only after the watchers were notified of its block, so all events have arrived by now.
    let all = events(&told);
    let values: Vec<_> = all.iter().map(|(_, _, value)| value.as_deref()).collect();
    assert_eq!(
        values,
        [Some("1"), Some("2"), Some("3"), Some("4"), Some("5"), None]
    );
    assert!(all.windows(2).all(|two| two[0].1 < two[1].1));
    assert_eq!(all[5].0, "a/0");

    drop(watching);
    assert_eq!(code(&node, client.set(5, "a/0", None, "after")), Code::Done);
    assert!(told.try_recv().is_err());
    node.stop();
}

#[test]
fn a_watcher_sees_only_keys_that_it_may_read_at_that_time() {
    let node = start(SimDisk::new(2));
    let mut client = Client::new();
    let (_five, to_five) = watch(&node, &mut client, 5, "");
    let (_six, to_six) = watch(&node, &mut client, 6, "");
    assert_eq!(code(&node, client.set(5, "private/x", None, "v")), Code::Done);
    assert_eq!(code(&node, client.set(5, "y", None, "v")), Code::Done);
    let keys =
        |told: &Receiver<Notification>| events(told).into_iter().map(|(key, ..)| key).collect::<Vec<_>>();
    assert_eq!(keys(&to_five), ["private/x", "y"]);
    assert_eq!(keys(&to_six), ["y"]);

    // The watcher of a revoked member receives one last notification that says so.
    let until_ms = lineside_messages::hybrid::signing::unix_ms() + 30_000;
    for admin in [1, 2] {
        let change = Change::RevokeMember { member: 6 };
        node.ask(vec![client.sign(admin, Body::Change { until_ms, change })]);
    }
    assert_eq!(code(&node, client.set(5, "y", None, "w")), Code::Done);
    assert_eq!(
        to_six.try_iter().collect::<Vec<_>>(),
        [Notification::Ended(Code::Revoked)]
    );
    assert_eq!(keys(&to_five), ["y"]);
    let (refused, _told) = sink(1);
    let request = client.sign(6, Body::Watch { prefix: b"" });
    assert_eq!(node.watch(request, refused).unwrap_err(), Code::Revoked);
}

#[test]
fn a_sink_that_refuses_is_removed_and_writes_continue() {
    let node = start(SimDisk::new(3));
    let mut client = Client::new();
    let (sink, told) = sink(2);
    let request = client.sign(6, Body::Watch { prefix: b"" });
    let _watching = node.watch(request.clone(), sink).unwrap();
    for _ in 0..5 {
        assert_eq!(code(&node, client.set(5, "a", None, "v")), Code::Done);
    }
    assert_eq!(told.iter().count(), 2, "the sink is dropped");

    let (again, _told) = self::sink(1);
    assert_eq!(node.watch(request, again).unwrap_err(), Code::NonceUsed);
    let (none, _told) = self::sink(1);
    let set = client.set(5, "b", None, "v");
    assert_eq!(node.watch(set, none).unwrap_err(), Code::Malformed);
    assert_eq!(shown(&one(&node, client.get(5, "b"))), None);
    // `ask` carries only one answer, so the node refuses a watch request.
    let request = client.sign(6, Body::Watch { prefix: b"" });
    assert_eq!(code(&node, request), Code::TooLarge);
}
