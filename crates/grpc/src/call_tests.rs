use super::*;
use crate::Limits;
use std::net::IpAddr;

fn stream(gate: &Arc<Gate>, connection: &Arc<Connection>) -> Call {
    Call::new(Arc::clone(gate), Arc::clone(connection), Incoming::Stream(0))
}

/// Returns the body that carries `encoded`, as the encoder of a call's answers makes it.
fn body(call: Call, encoded: &Bytes) -> Body {
    let encoded = Body::new(OnePart(Some(encoded.clone())));
    call.answer(http::Response::new(encoded)).into_body()
}

/// Body of one part.
struct OnePart(Option<Bytes>);

impl HttpBody for OnePart {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn next_part(body: &mut Body) -> Bytes {
    let polled = Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
    let Poll::Ready(Some(Ok(frame))) = polled else {
        panic!("the body has no part");
    };
    frame.into_data().unwrap()
}

#[test]
fn an_answer_is_counted_without_a_gap_until_it_was_sent() {
    let gate = Gate::new(Limits {
        memory_bytes: 100,
        ..Limits::default()
    });
    let connection = gate.connect(IpAddr::from([127, 0, 0, 1])).unwrap();
    let [first, second] = [(); 2].map(|()| stream(&gate, &connection.connection));
    let (of_first, of_second) = (first.answers(), second.answers());
    let answer = Bytes::from(vec![0; 60]);
    let waiting = of_first.count_until_encoded(&answer).unwrap();
    assert!(of_second.count_until_encoded(&answer).is_none());
    drop(waiting);
    assert!(
        of_second.count_until_encoded(&answer).is_none(),
        "the first answer was encoded, but HTTP/2 has not taken it yet"
    );
    let encoded = Bytes::from(vec![0; 65]);
    let mut body = body(first, &encoded);
    let sending = next_part(&mut body);
    assert_eq!((gate.bytes_under_way(), sending.len()), (65, 65));
    assert!(of_second.count_until_encoded(&answer).is_none());
    drop(sending);
    assert_eq!(gate.bytes_under_way(), 0);
    assert!(of_second.count_until_encoded(&answer).is_some());
    // The second answer was never sent, so its bytes are given back at the end of the call.
    assert_eq!(gate.bytes_under_way(), 60);
    drop((of_second, second));
    assert_eq!(gate.bytes_under_way(), 0);
}
