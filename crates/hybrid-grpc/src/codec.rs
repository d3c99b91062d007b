//! A codec that counts the entries of a batch before it decodes the message.
//!
//! An entry of a batch may be two bytes long and take many times as much memory when it is decoded. So the codec finds
//! a message with too many entries by its wire format, and refuses it before decoding.

use bytes::Buf;
use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Maximum number of requests in a batch.
pub(crate) const BATCH_MAX: usize = 10_000;

/// Wire types of protobuf: kinds of fields (https://protobuf.dev/programming-guides/encoding).
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;

/// Codec of protobuf messages. It accepts a request with at most [`BATCH_MAX`] fields at its top level.
pub(crate) struct CountingCodec<Out, In>(PhantomData<fn() -> (Out, In)>);

impl<Out, In> Default for CountingCodec<Out, In> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Out, In> Codec for CountingCodec<Out, In>
where
    Out: Message + Send + 'static,
    In: Message + Default + Send + 'static,
{
    type Encode = Out;
    type Decode = In;
    type Encoder = ProstEncoder<Out>;
    type Decoder = CountingDecoder<In>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Out, In>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingDecoder(ProstDecoder::default())
    }
}

/// Decoder of [`CountingCodec`].
pub(crate) struct CountingDecoder<In>(ProstDecoder<In>);

impl<In: Message + Default> Decoder for CountingDecoder<In> {
    type Item = In;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<In>, Status> {
        // tonic hands over a message in one piece.
        let message = bytes.chunk();
        if message.len() != bytes.remaining() {
            return Err(Status::internal("the message is not contiguous"));
        }
        check_fields(message)?;
        self.0.decode(bytes)
    }
}

/// Checks that a message has at most [`BATCH_MAX`] fields at its top level. A repeated field counts once for each
/// entry.
///
/// Returns OUT_OF_RANGE if there are more, and INVALID_ARGUMENT if the bytes are not a proto3 message.
fn check_fields(mut message: &[u8]) -> Result<(), Status> {
    let malformed = || Status::invalid_argument("the request is not a protobuf message");
    let mut fields = 0;
    while !message.is_empty() {
        let tag = varint(&mut message).ok_or_else(malformed)?;
        let length = match tag & 7 {
            VARINT => varint(&mut message).map(|_| 0),
            FIXED_64 => Some(8),
            LENGTH_DELIMITED => varint(&mut message),
            FIXED_32 => Some(4),
            // proto3 has no groups, so such a message is malformed.
            _ => None,
        };
        let rest = length.and_then(|length| message.get(usize::try_from(length).ok()?..));
        message = rest.ok_or_else(malformed)?;
        fields += 1;
        if fields > BATCH_MAX {
            return Err(Status::out_of_range(format!(
                "the batch has more than {BATCH_MAX} requests; split it"
            )));
        }
    }
    Ok(())
}

/// Reads a variable-length integer of at most ten bytes.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for index in 0..10 {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn code(message: &[u8]) -> Code {
        check_fields(message).map_or_else(|status| status.code(), |()| Code::Ok)
    }

    #[test]
    fn every_kind_of_field_counts() {
        for field in [
            &[0x0a, 0][..],
            &[0x0a, 2, 1, 2],
            &[0x08, 0x80, 1],
            &[0x09, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x0d, 0, 0, 0, 0],
            &[0xfa, 0xff, 0xff, 0xff, 0x0f, 0],
        ] {
            assert_eq!(code(&field.repeat(BATCH_MAX)), Code::Ok, "{field:?}");
            assert_eq!(code(&field.repeat(BATCH_MAX + 1)), Code::OutOfRange, "{field:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_a_message_are_refused() {
        for bytes in [
            &[0x0a][..],
            &[0x0a, 1],
            &[0x08, 0x80],
            &[0x09, 0],
            // A group could hide fields from the count, so it is refused.
            &[0x0b, 0x0a, 0, 0x0c],
            &[0x0e],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x80; 11],
        ] {
            assert_eq!(code(bytes), Code::InvalidArgument, "{bytes:?}");
        }
        assert_eq!(code(&[]), Code::Ok);
    }
}
