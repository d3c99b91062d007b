//! Request for blocks: a signed envelope around `SeekInfo`.

use crate::messages::{Envelope, Position, SeekInfo};
use crate::signer::Signer;
use bytes::Bytes;
use lineside_fabric::proto::{self, Arena, ChannelHeader, Payload, SignatureHeader, wire};
use prost::Message;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `HeaderType_DELIVER_SEEK_INFO`.
const DELIVER_SEEK_INFO: u64 = 5;
const NONCE_BYTES: usize = 24;

/// Returns a request for the blocks `from` to `to`; `u64::MAX` as `to` means that the stream has no end.
pub fn seek(from: u64, to: u64) -> SeekInfo {
    SeekInfo {
        start: Some(Position::block(from).into()),
        stop: Some(Position::block(to).into()),
        ..SeekInfo::default()
    }
}

/// Makes and signs a request. With mutual TLS, servers expect the SHA-256 of the client's TLS certificate in it.
pub fn sign(
    signer: &Signer,
    channel: &str,
    seek: &SeekInfo,
    tls_cert_hash: Option<[u8; 32]>,
    now: SystemTime,
) -> Envelope {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut timestamp = Vec::new();
    wire::put_number(&mut timestamp, 1, now.as_secs());
    wire::put_number(&mut timestamp, 2, u64::from(now.subsec_nanos()));
    let mut channel_header = Vec::new();
    wire::put_number(&mut channel_header, 1, DELIVER_SEEK_INFO);
    wire::put_bytes(&mut channel_header, 3, &timestamp);
    wire::put_bytes(&mut channel_header, 4, channel.as_bytes());
    if let Some(hash) = tls_cert_hash {
        wire::put_bytes(&mut channel_header, 8, &hash);
    }
    let mut nonce = [0; NONCE_BYTES];
    // If no random bytes are available, the nonce is zeros. That has no effect, because peers do not store the nonces
    // of these requests.
    let _ = getrandom::fill(&mut nonce);
    let mut signature_header = Vec::new();
    wire::put_bytes(&mut signature_header, 1, signer.identity());
    wire::put_bytes(&mut signature_header, 2, &nonce);
    let mut header = Vec::new();
    wire::put_bytes(&mut header, 1, &channel_header);
    wire::put_bytes(&mut header, 2, &signature_header);
    let mut payload = Vec::new();
    wire::put_bytes(&mut payload, 1, &header);
    wire::put_bytes(&mut payload, 2, &seek.encode_to_vec());
    Envelope {
        signature: signer.sign(&payload).into(),
        payload: payload.into(),
    }
}

/// A parsed request.
#[derive(PartialEq, Eq, Debug)]
pub struct Request {
    /// Channel of the request.
    pub channel: String,
    /// Time of the request in nanoseconds since 1970, if the request has a timestamp.
    pub timestamp_ns: Option<i128>,
    /// SHA-256 of the client's TLS certificate, if present.
    pub tls_cert_hash: Vec<u8>,
    /// Serialised identity of the sender.
    pub creator: Vec<u8>,
    /// Content of the request. A valid request contains a `SeekInfo`.
    pub data: Bytes,
}

/// Parses the payload of an envelope; `None` if it is malformed.
pub fn read(payload: &[u8]) -> Option<Request> {
    let arena = Arena::new();
    let payload: Payload<'_> = proto::decode(payload, &arena).ok()?;
    let header = payload.header?;
    let channel: ChannelHeader<'_> = proto::decode(header.channel_header, &arena).ok()?;
    let by: SignatureHeader<'_> = proto::decode(header.signature_header, &arena).ok()?;
    let timestamp_ns = channel
        .timestamp
        .as_ref()
        .map(|at| i128::from(at.seconds) * 1_000_000_000 + i128::from(at.nanos));
    Some(Request {
        channel: channel.channel_id.to_owned(),
        timestamp_ns,
        tls_cert_hash: channel.tls_cert_hash.to_vec(),
        creator: by.creator.to_vec(),
        data: Bytes::copy_from_slice(payload.data),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_testkit::Random;

    #[test]
    fn mutated_requests_are_read_or_not() {
        let mut header = Vec::new();
        wire::put_number(&mut header, 1, DELIVER_SEEK_INFO);
        wire::put_bytes(&mut header, 3, &[8, 1, 16, 2]);
        wire::put_bytes(&mut header, 4, b"channel");
        let mut headers = Vec::new();
        wire::put_bytes(&mut headers, 1, &header);
        wire::put_bytes(&mut headers, 2, &[10, 1, b'i', 18, 1, b'n']);
        let mut good = Vec::new();
        wire::put_bytes(&mut good, 1, &headers);
        wire::put_bytes(&mut good, 2, &seek(7, u64::MAX).encode_to_vec());
        let request = read(&good).unwrap();
        assert_eq!(
            (request.channel.as_str(), request.creator.as_slice()),
            ("channel", &b"i"[..])
        );
        assert_eq!(request.timestamp_ns, Some(1_000_000_002));
        assert_eq!(SeekInfo::decode(request.data).unwrap(), seek(7, u64::MAX));

        let mut random = Random(1);
        let mut read_at_all = 0;
        for _ in 0..50_000 {
            let mut bytes = good.clone();
            for _ in 0..=random.index(3) {
                let at = random.index(bytes.len());
                bytes[at] = random.index(256) as u8;
            }
            bytes.truncate(bytes.len() - random.index(2) * random.index(20));
            if let Some(request) = read(&bytes) {
                read_at_all += 1;
                let _ = SeekInfo::decode(request.data);
            }
        }
        assert!((1_000..49_000).contains(&read_at_all), "{read_at_all}");
    }
}
