//! Writes protobuf messages.

use lineside_fabric::proto::wire;

/// A message being written. Fields stand as they are put: in the order of their numbers, as Go writes them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Out(Vec<u8>);

impl Out {
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes, a text or a message that is written already; also where it is empty.
    pub fn bytes(mut self, number: u32, content: impl AsRef<[u8]>) -> Self {
        wire::put_bytes(&mut self.0, number, content.as_ref());
        self
    }

    /// The same, left out where it is empty, as proto3 leaves its scalars out.
    pub fn some(self, number: u32, content: impl AsRef<[u8]>) -> Self {
        match content.as_ref() {
            [] => self,
            content => self.bytes(number, content),
        }
    }

    /// A number, left out where it is 0.
    pub fn number(mut self, number: u32, value: u64) -> Self {
        wire::put_number(&mut self.0, number, value);
        self
    }

    /// A number of a oneof, written also where it is 0.
    pub fn chosen(mut self, number: u32, value: u64) -> Self {
        wire::put_varint(&mut self.0, u64::from(number) << 3);
        wire::put_varint(&mut self.0, value);
        self
    }

    /// A message.
    pub fn message(self, number: u32, content: Out) -> Self {
        self.bytes(number, content.0)
    }

    /// Several, each as a field of this number.
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
