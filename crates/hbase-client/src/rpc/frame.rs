//! Frames of HBase's RPC. A frame has a length of four bytes, then a header and a message, each with its own length
//! before it.

use super::messages::{ConnectionHeader, RequestHeader, ResponseHeader, UserInformation};
use bytes::{Buf, Bytes};
use prost::Message;

/// Maximum number of bytes of a response. A longer response is skipped, and its call fails.
pub const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Number of bytes that are read of a response above the maximum, to find its header.
pub(super) const HEADER_BYTES_MAX: usize = 4096;
/// First bytes of a connection: "HBas", version 0, and 80, which means that SASL is not used.
const PREAMBLE: [u8; 6] = *b"HBas\0\x50";
/// Maximum number of characters of an exception's text.
const EXCEPTION_CHARS_MAX: usize = 300;

/// Description of what is wrong in a frame or message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's answer is wrong: {0}")]
pub struct Malformed(pub &'static str);

/// Exception with which a server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exception {
    /// Name of the Java class, with its package.
    pub class: String,
    /// First line of the exception's text.
    pub message: String,
    /// True if the same call would fail again.
    pub do_not_retry: bool,
    /// Present address of the region, `host:port`, if the exception contains it.
    pub moved_to: Option<String>,
}

impl Exception {
    /// Returns the name of the class without its package.
    pub fn name(&self) -> &str {
        let last = self.class.rsplit('.').next().unwrap_or_default();
        last.rsplit('$').next().unwrap_or_default()
    }

    /// Creates an exception of this class with this text.
    pub(super) fn new(class: &str, said: &str) -> Self {
        let line = said.lines().next().unwrap_or_default();
        Self {
            class: class.to_owned(),
            message: line.chars().take(EXCEPTION_CHARS_MAX).collect(),
            do_not_retry: false,
            moved_to: None,
        }
    }
}

impl std::fmt::Display for Exception {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message.contains(self.name()) {
            true => write!(f, "{}", self.message),
            false => write!(f, "{}: {}", self.name(), self.message),
        }
    }
}

/// A response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Number of the call; `None`, or all ones, if the response concerns the whole connection.
    pub call_id: Option<u32>,
    /// Message of the answer, or the exception.
    pub outcome: Result<Bytes, Exception>,
}

/// Returns the bytes with which a client opens a connection to a service.
pub(super) fn opening(service: &str) -> Vec<u8> {
    let header = ConnectionHeader {
        user_info: Some(UserInformation {
            effective_user: "lineside".into(),
        }),
        service_name: Some(service.into()),
    };
    let length = header.encoded_len() as u32;
    let mut bytes = [&PREAMBLE[..], &length.to_be_bytes()].concat();
    bytes.extend(header.encode_to_vec());
    bytes
}

/// Returns the frame of a call.
pub(super) fn request(call_id: u32, method: &str, timeout_ms: u32, message: &impl Message) -> Vec<u8> {
    let header = RequestHeader {
        call_id: Some(call_id),
        method_name: Some(method.into()),
        request_param: Some(true),
        timeout: Some(timeout_ms),
    };
    let mut bytes = vec![0; 4];
    bytes.extend(header.encode_length_delimited_to_vec());
    bytes.extend(message.encode_length_delimited_to_vec());
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Removes a message, which is preceded by its length, from the front of the frame.
fn delimited(frame: &mut Bytes) -> Result<Bytes, Malformed> {
    let length =
        prost::decode_length_delimiter(&mut *frame).map_err(|_| Malformed("a length cannot be decoded"))?;
    if length > frame.remaining() {
        return Err(Malformed("a message is longer than its frame"));
    }
    Ok(frame.split_to(length))
}

fn header(frame: &mut Bytes) -> Result<ResponseHeader, Malformed> {
    let bytes = delimited(frame)?;
    ResponseHeader::decode(bytes).map_err(|_| Malformed("a header cannot be decoded"))
}

/// Parses a frame without its length field.
///
/// # Errors
/// [`Malformed`] if the frame is not a valid response.
pub fn parse(mut frame: Bytes) -> Result<Response, Malformed> {
    let header = header(&mut frame)?;
    if header.cell_block_meta.and_then(|meta| meta.length).unwrap_or(0) > 0 {
        return Err(Malformed("a cell block follows, although none was requested"));
    }
    if let Some(thrown) = header.exception {
        let class = thrown.exception_class_name.unwrap_or_default();
        let port = thrown.port.and_then(|port| u16::try_from(port).ok());
        let host = thrown.hostname.filter(|host| !host.is_empty());
        let moved_to = host.zip(port.filter(|port| *port > 0));
        let exception = Exception {
            do_not_retry: thrown.do_not_retry.unwrap_or(false),
            moved_to: moved_to.map(|(host, port)| format!("{host}:{port}")),
            ..Exception::new(&class, &thrown.stack_trace.unwrap_or_default())
        };
        return Ok(Response {
            call_id: header.call_id,
            outcome: Err(exception),
        });
    }
    let message = delimited(&mut frame)?;
    if frame.has_remaining() {
        return Err(Malformed("a frame is longer than its message"));
    }
    Ok(Response {
        call_id: header.call_id,
        outcome: Ok(message),
    })
}

/// Returns the number of the call that a frame answers, from the frame's first bytes.
pub(super) fn call_of(mut beginning: Bytes) -> Result<u32, Malformed> {
    let header = header(&mut beginning)?;
    header.call_id.ok_or(Malformed("the frame has no call number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::messages::{CellBlockMeta, ExceptionResponse, Nothing};

    fn frame(header: &ResponseHeader, rest: &[u8]) -> Bytes {
        [&header.encode_length_delimited_to_vec()[..], rest]
            .concat()
            .into()
    }

    #[test]
    fn a_written_response_is_parsed_unchanged() {
        let header = ResponseHeader {
            call_id: Some(7),
            ..ResponseHeader::default()
        };
        let whole = frame(&header, &[2, 8, 1]);
        let read = parse(whole.clone()).unwrap();
        assert_eq!((read.call_id, &read.outcome.unwrap()[..]), (Some(7), &[8, 1][..]));
        assert_eq!(call_of(whole.slice(..5)), Ok(7));
        for end in 0..whole.len() {
            assert!(parse(whole.slice(..end)).is_err(), "{end}");
        }
        assert!(parse(frame(&header, &[2, 8, 1, 0])).is_err());
        let cells = ResponseHeader {
            cell_block_meta: Some(CellBlockMeta { length: Some(9) }),
            ..header
        };
        assert!(parse(frame(&cells, &[0])).is_err());
    }

    #[test]
    fn an_exception_contains_the_new_address_of_the_region() {
        let thrown = ExceptionResponse {
            exception_class_name: Some("org.apache.hadoop.hbase.exceptions.RegionMovedException".into()),
            stack_trace: Some("Region moved\n\tat somewhere".into()),
            hostname: Some("there".into()),
            port: Some(16020),
            do_not_retry: Some(false),
        };
        let mut header = ResponseHeader {
            call_id: Some(1),
            exception: Some(thrown),
            cell_block_meta: None,
        };
        let exception = parse(frame(&header, b"")).unwrap().outcome.unwrap_err();
        assert_eq!(exception.name(), "RegionMovedException");
        assert_eq!(exception.moved_to.as_deref(), Some("there:16020"));
        assert_eq!(exception.to_string(), "RegionMovedException: Region moved");
        for port in [-1, 0, 65_536] {
            header.exception.as_mut().unwrap().port = Some(port);
            let exception = parse(frame(&header, b"")).unwrap().outcome.unwrap_err();
            assert_eq!(exception.moved_to, None);
        }
    }

    #[test]
    fn the_length_field_of_a_call_equals_its_length() {
        let bytes = request(3, "Get", 1000, &Nothing {});
        assert_eq!(bytes[..4], (bytes.len() as u32 - 4).to_be_bytes());
        let opening = opening("ClientService");
        assert_eq!(opening[..6], *b"HBas\0P");
        let length = u32::from_be_bytes(opening[6..10].try_into().unwrap());
        assert_eq!(opening.len() - 10, length as usize);
    }
}
