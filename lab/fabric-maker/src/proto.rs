//! Encoder of protobuf messages.

use lineside_fabric::proto::wire;

/// Message that is being encoded. Fields are written in the order of the calls. Callers add them in the order of the
/// field numbers, as Go does.
#[derive(Clone, Default, Debug)]
pub(crate) struct Out(Vec<u8>);

impl Out {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field of bytes, text or an encoded message, even if the content is empty.
    pub fn bytes(mut self, number: u32, content: impl AsRef<[u8]>) -> Self {
        wire::put_bytes(&mut self.0, number, content.as_ref());
        self
    }

    /// Appends a field of bytes, text or an encoded message, unless the content is empty, as proto3 does for scalars.
    pub fn some(self, number: u32, content: impl AsRef<[u8]>) -> Self {
        match content.as_ref() {
            [] => self,
            content => self.bytes(number, content),
        }
    }

    /// Appends a varint field, unless the value is 0.
    pub fn number(mut self, number: u32, value: u64) -> Self {
        wire::put_number(&mut self.0, number, value);
        self
    }

    /// Appends a varint field of a oneof, even if the value is 0.
    pub fn chosen(mut self, number: u32, value: u64) -> Self {
        wire::put_varint(&mut self.0, u64::from(number) << 3);
        wire::put_varint(&mut self.0, value);
        self
    }

    /// Appends a message.
    pub fn message(self, number: u32, content: Out) -> Self {
        self.bytes(number, content.0)
    }

    /// Appends several fields with this number.
    pub fn each(self, number: u32, contents: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        contents
            .into_iter()
            .fold(self, |out, content| out.bytes(number, content))
    }

    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Out {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
