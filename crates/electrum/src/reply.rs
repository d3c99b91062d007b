//! Replies as text, written to the end of a buffer.

use crate::request::RpcError;

/// Returns the lower-case hexadecimal digit of a number below 16. The function uses neither a table nor a branch, so
/// the compiler can vectorize a loop that calls it.
const fn digit(value: u8) -> u8 {
    // 39 is the distance from the character after '9' to 'a'.
    value + b'0' + ((value + 6) >> 4) * 39
}

/// Writes the bytes in their order, as two hexadecimal digits each.
pub(crate) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    let pairs = out[start..].as_chunks_mut::<2>().0;
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
}

/// Writes a hash as explorers show it, starting with the last byte.
pub(crate) fn hash(out: &mut Vec<u8>, hash: &[u8; 32]) {
    let mut text = [0; 64];
    let pairs = text.as_chunks_mut::<2>().0;
    for (pair, byte) in pairs.iter_mut().zip(hash.iter().rev()) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    out.extend_from_slice(&text);
}

/// Writes a decimal number.
pub(crate) fn number(out: &mut Vec<u8>, mut value: u32) {
    let mut text = [0; 10];
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[start..]);
}

/// Writes a JSON string with its quotation marks.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    // Writing text into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, text);
}

/// Writes the text before a result.
pub(crate) fn begin_result(out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","result":"#);
}

/// Writes the text after a result or an error.
pub(crate) fn end(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(br#","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.push(b'}');
}

/// Writes a reply with an error. `id` is `None` if the identifier of the request could not be read.
pub(crate) fn error(out: &mut Vec<u8>, id: Option<&str>, error: &RpcError) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","error":{"code":"#);
    out.extend_from_slice(error.code.to_string().as_bytes());
    out.extend_from_slice(br#","message":"#);
    string(out, &error.message);
    out.push(b'}');
    end(out, id.unwrap_or("null"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_util::hex::{to_display, to_hex};

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn numbers_and_hashes_equal_those_of_the_standard_formatters() {
        for value in [0, 7, 10, 99, 4_294_967_295] {
            assert_eq!(text(|out| number(out, value)), value.to_string());
        }
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(text(|out| hex(out, &bytes)), to_hex(&bytes));
        let value = std::array::from_fn(|index| (7 * index) as u8);
        assert_eq!(text(|out| hash(out, &value)), to_display(&value));
    }

    #[test]
    fn an_error_is_valid_json_for_every_message() {
        let wrong = RpcError::new(-5, "a \"quoted\"\n\u{1} word");
        let written = text(|out| error(out, Some("\"x\""), &wrong));
        let read: serde_json::Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(read["error"]["message"], *wrong.message);
        assert_eq!((&read["error"]["code"], &read["id"]), (&(-5).into(), &"x".into()));
    }
}
