//! Encoder and decoder of the ZeroMQ protocol (ZMTP 3) for a subscriber, without I/O.
//!
//! Source: ZeroMQ RFC 23 (ZMTP 3.0) and RFC 37 (ZMTP 3.1), `doc/zmq.md` of Bitcoin Core. Only the mechanism NULL is
//! supported, the only one that Bitcoin Core offers.

use crate::hash::BlockHash;

/// Maximum length of a frame in bytes. Frames of the subscribed topics have at most 41 bytes.
pub const FRAME_BYTES_MAX: usize = 1024;
/// Maximum number of frames in a message. Bitcoin Core sends three.
pub const FRAMES_MAX: usize = 4;
const GREETING_BYTES: usize = 64;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Reason why a peer is not a ZMQ publisher, or not a supported ZMQ publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZmqError {
    /// The first bytes are not a greeting.
    #[error(
        "the server at the address of the ZMQ publisher does not use ZMTP; is this the address of a ZMQ publisher?"
    )]
    NotZmtp,
    /// The protocol is older than version 3.
    #[error("the ZMQ publisher uses version {0} of ZMTP, but version 3 is needed; use a node with libzmq 4")]
    Version(u8),
    /// The peer requires authentication.
    #[error(
        "the ZMQ publisher requires authentication (another mechanism than NULL), which is not supported; use a \
         publisher without authentication"
    )]
    Mechanism,
    /// A frame has undefined flags.
    #[error(
        "the ZMQ publisher sent a frame with the unknown flags {0:#04x}; is this the address of a ZMQ publisher?"
    )]
    Flags(u8),
    /// A frame is too long.
    #[error(
        "the ZMQ publisher sent a frame of {0} bytes, and the maximum is {FRAME_BYTES_MAX}; is this the address of a \
         ZMQ publisher?"
    )]
    FrameTooLong(u64),
    /// A message has too many frames.
    #[error(
        "the ZMQ publisher sent a message of more than {FRAMES_MAX} frames; is this the address of a ZMQ publisher?"
    )]
    TooManyFrames,
}

/// Returns the first bytes that a subscriber sends: the greeting, the command READY with the socket type `SUB`, and the
/// subscriptions to `topics`.
pub fn opening(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    bytes.extend_from_slice(b"NULL");
    bytes.resize(GREETING_BYTES, 0);
    let ready = b"\x05READY\x0bSocket-Type\0\0\0\x03SUB";
    bytes.extend_from_slice(&[COMMAND, ready.len() as u8]);
    bytes.extend_from_slice(ready);
    for topic in topics {
        bytes.extend_from_slice(&[0, topic.len() as u8 + 1, 1]);
        bytes.extend_from_slice(topic.as_bytes());
    }
    bytes
}

/// Event in the stream of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A complete message, as a list of its frames.
    Message(Vec<Vec<u8>>),
    /// A PING command, and the bytes of the reply to it.
    Ping(Vec<u8>),
    /// Any other command.
    Command,
}

/// Decoder that splits a stream of bytes into events. It stores at most one message and the bytes of one read.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    greeted: bool,
    frames: Vec<Vec<u8>>,
}

impl Decoder {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next event; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ZmqError`]; the stream cannot be used any more.
    #[allow(clippy::should_implement_trait, reason = "more bytes may come after `None`")]
    pub fn next(&mut self) -> Result<Option<Event>, ZmqError> {
        if !self.greeted {
            self.greeted = greet(&self.bytes)?;
            if !self.greeted {
                return Ok(None);
            }
            self.bytes.drain(..GREETING_BYTES);
        }
        while let Some((flags, body, end)) = frame(&self.bytes)? {
            let body = self.bytes[body..end].to_vec();
            self.bytes.drain(..end);
            if flags & COMMAND != 0 {
                return Ok(Some(command(&body)));
            }
            if self.frames.len() == FRAMES_MAX {
                return Err(ZmqError::TooManyFrames);
            }
            self.frames.push(body);
            if flags & MORE == 0 {
                return Ok(Some(Event::Message(std::mem::take(&mut self.frames))));
            }
        }
        Ok(None)
    }
}

/// Checks the received part of the greeting. Returns true if it is complete.
fn greet(bytes: &[u8]) -> Result<bool, ZmqError> {
    let is = |at: usize, expected: u8| bytes.get(at).is_none_or(|byte| *byte == expected);
    if !is(0, 0xff) || !is(9, 0x7f) {
        return Err(ZmqError::NotZmtp);
    }
    match bytes.get(10) {
        Some(version) if *version < 3 => return Err(ZmqError::Version(*version)),
        _ => {}
    }
    let Some(mechanism) = bytes.get(12..32) else {
        return Ok(false);
    };
    if !mechanism.starts_with(b"NULL\0") {
        return Err(ZmqError::Mechanism);
    }
    Ok(bytes.len() >= GREETING_BYTES)
}

/// Returns flags, start and end of the body of the first frame; `None` if it is incomplete.
fn frame(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, ZmqError> {
    let Some(&flags) = bytes.first() else {
        return Ok(None);
    };
    if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
        return Err(ZmqError::Flags(flags));
    }
    let (length, start) = if flags & LONG != 0 {
        match bytes.get(1..).and_then(|rest| rest.first_chunk()) {
            Some(length) => (u64::from_be_bytes(*length), 9),
            None => return Ok(None),
        }
    } else {
        match bytes.get(1) {
            Some(length) => (u64::from(*length), 2),
            None => return Ok(None),
        }
    };
    if length > FRAME_BYTES_MAX as u64 {
        return Err(ZmqError::FrameTooLong(length));
    }
    let end = start + length as usize;
    Ok((bytes.len() >= end).then_some((flags, start, end)))
}

fn command(body: &[u8]) -> Event {
    // A PING has its name with the name's length, a time to live in two bytes, and a context of at most 16 bytes, which
    // the reply must repeat.
    match body.strip_prefix(b"\x04PING") {
        Some(rest) if (2..=18).contains(&rest.len()) => {
            let context = &rest[2..];
            let mut pong = vec![COMMAND, 5 + context.len() as u8];
            pong.extend_from_slice(b"\x04PONG");
            pong.extend_from_slice(context);
            Event::Ping(pong)
        }
        _ => Event::Command,
    }
}

/// Topics that announce blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Topic `hashblock`, which announces each new tip.
    HashBlock,
    /// Topic `sequence`, which announces each block that is connected or disconnected, and each transaction of the
    /// memory pool.
    Sequence,
}

impl Topic {
    /// Returns the name of the topic in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Topic::HashBlock => "hashblock",
            Topic::Sequence => "sequence",
        }
    }
}

/// Returns the block that a message announces; `None` for transactions and for every other message.
///
/// Source: `doc/zmq.md` of Bitcoin Core. The frames are the topic, the body, and a counter of four bytes. The body
/// begins with the hash in reversed byte order; in `sequence` a letter follows: `C` (connected), `D` (disconnected), or
/// `A`, `R` for transactions.
pub fn announced(frames: &[Vec<u8>]) -> Option<BlockHash> {
    let [topic, body, counter] = frames else {
        return None;
    };
    let (hash, rest) = body.split_first_chunk::<32>()?;
    let is_block = match topic.as_slice() {
        b"hashblock" => rest.is_empty(),
        b"sequence" => matches!(rest, [b'C' | b'D']),
        _ => false,
    };
    let mut hash = *hash;
    hash.reverse();
    (is_block && counter.len() == 4).then_some(BlockHash(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Vec<u8> {
        opening(&[])[..GREETING_BYTES].to_vec()
    }

    fn events(bytes: &[u8], step: usize) -> Result<Vec<Event>, ZmqError> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for part in bytes.chunks(step) {
            decoder.push(part);
            while let Some(event) = decoder.next()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    #[test]
    fn a_stream_gives_the_same_events_for_all_lengths_of_reads() {
        let mut bytes = greeting();
        bytes.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB");
        bytes.extend_from_slice(b"\x01\x09hashblock\x01\x20");
        bytes.extend_from_slice(&[7; 32]);
        bytes.extend_from_slice(b"\x00\x04\x05\0\0\0\x04\x08\x04PING\0\x09c");
        bytes.extend_from_slice(b"\x03\0\0\0\0\0\0\0\x08sequence\x01\x21");
        bytes.extend_from_slice(&[8; 32]);
        bytes.extend_from_slice(b"D\x00\x04\x06\0\0\0");
        for step in [1, 2, 3, 7, 64, 1000] {
            let events = events(&bytes, step).unwrap();
            let [
                Event::Command,
                Event::Message(one),
                Event::Ping(pong),
                Event::Message(two),
            ] = &events[..]
            else {
                panic!("{events:?}");
            };
            assert_eq!(announced(one), Some(BlockHash([7; 32])));
            assert_eq!(announced(two), Some(BlockHash([8; 32])));
            assert_eq!(pong, b"\x04\x06\x04PONGc");
        }
    }

    #[test]
    fn garbage_and_oversize_end_the_stream() {
        let after = |rest: &[u8]| events(&[&greeting()[..], rest].concat(), 5);
        assert_eq!(events(b"HTTP/1.1 400 Bad Request", 100), Err(ZmqError::NotZmtp));
        let mut old = greeting();
        old[10] = 2;
        assert_eq!(events(&old, 100), Err(ZmqError::Version(2)));
        let mut curve = greeting();
        curve[12..17].copy_from_slice(b"CURVE");
        assert_eq!(events(&curve, 100), Err(ZmqError::Mechanism));
        assert_eq!(after(&[0x08, 0]), Err(ZmqError::Flags(8)));
        assert_eq!(after(&[0x05, 0]), Err(ZmqError::Flags(5)));
        assert_eq!(
            after(&[2, 0, 0, 0, 0, 0, 0, 4, 1]),
            Err(ZmqError::FrameTooLong(1025))
        );
        assert_eq!(
            after(&[2, 255, 255, 255, 255, 255, 255, 255, 255]),
            Err(ZmqError::FrameTooLong(u64::MAX))
        );
        assert_eq!(
            after(&[1, 0, 1, 0, 1, 0, 1, 0, 1, 0]),
            Err(ZmqError::TooManyFrames)
        );
    }

    #[test]
    fn only_blocks_are_announced() {
        let message = |topic: &str, body: &[u8], counter: &[u8]| {
            announced(&[topic.into(), body.to_vec(), counter.to_vec()])
        };
        let hash: [u8; 32] = std::array::from_fn(|index| index as u8);
        let found = message("hashblock", &hash, &[0; 4]).unwrap();
        assert!(
            found.to_string().starts_with("000102"),
            "the hash in a message has the byte order of its text"
        );
        let with = |label: u8| [&hash[..], &[label]].concat();
        assert!(message("sequence", &with(b'C'), &[0; 4]).is_some());
        for (topic, body, counter) in [
            ("sequence", with(b'A'), 4),
            ("sequence", hash.to_vec(), 4),
            ("hashblock", with(b'C'), 4),
            ("hashblock", hash[1..].to_vec(), 4),
            ("hashblock", hash.to_vec(), 3),
            ("hashtx", hash.to_vec(), 4),
        ] {
            assert_eq!(message(topic, &body, &vec![0; counter]), None, "{topic} {body:?}");
        }
        assert_eq!(announced(&[]), None);
    }

    #[test]
    fn the_opening_has_the_bytes_of_the_specification() {
        let bytes = opening(&["hashblock"]);
        assert_eq!(&bytes[..12], [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
        assert_eq!(&bytes[12..16], b"NULL");
        assert!(bytes[16..64].iter().all(|byte| *byte == 0));
        assert_eq!(&bytes[64..66], [4, 25]);
        assert_eq!(&bytes[91..], b"\0\x0a\x01hashblock");
    }
}
