//! Keys and values on the command line, in the notation of HBase's shell: text, and `\xNN` for any other byte.

/// Returns the bytes that are written as `text`.
///
/// # Errors
/// The text has an escape sequence that does not exist.
pub fn parse(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, remaining)) = rest.split_first() {
        if *first != b'\\' {
            bytes.push(*first);
            rest = remaining;
            continue;
        }
        let Some((escaped, after_backslash)) = remaining.split_first() else {
            return Err("a single backslash at the end: write \\\\ for a backslash".into());
        };
        rest = after_backslash;
        bytes.push(match escaped {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'\\' | b'\'' | b'"' => *escaped,
            b'x' => {
                let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                let byte = digits
                    .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                rest = rest.get(2..).unwrap_or_default();
                byte.ok_or("\\x needs two hex digits after it")?
            }
            _ => {
                return Err(
                    "unknown escape: after a backslash write xNN (two hex digits), n, r, t, \\, ' or \""
                        .into(),
                );
            }
        });
    }
    Ok(bytes)
}

/// Returns `bytes` written as text.
pub fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_printed_and_parsed_back_and_bad_escapes_are_refused() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(parse(&show(&all)), Ok(all));
        assert_eq!(parse("row\\x00\\xFf"), Ok(b"row\0\xff".to_vec()));
        assert_eq!(parse("é"), Ok("é".as_bytes().to_vec()));
        for wrong in ["\\", "\\x", "\\x1", "\\x+1", "\\xg0", "\\0", "\\xé"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
