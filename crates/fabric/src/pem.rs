//! PEM decoder with the behaviour of Go's `encoding/pem.Decode` for the first block, and of `base64.StdEncoding`.
//!
//! The decoder follows Go 1.25.3 and later, with which Fabric 3.1.5 appears to be built. The decoder of Go 1.24 and
//! earlier starts at the first BEGIN line; the newer decoder starts at the last BEGIN line before an END line. The
//! results differ only if several BEGIN lines precede an END line, or if the first BEGIN line does not start a valid
//! block.

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// Returns the decoded bytes of the first PEM block, whatever its type.
pub fn decode(data: &[u8]) -> Option<Vec<u8>> {
    let mut from = 0;
    loop {
        let end = from + find(data.get(from..)?, END)?;
        let trailer = end + END.len();
        match block(data, from, end, trailer) {
            PemSearch::Block(bytes) => return Some(bytes),
            PemSearch::None => from = trailer,
            PemSearch::End => return None,
        }
    }
}

/// Result of looking for a block before an END line.
enum PemSearch {
    Block(Vec<u8>),
    /// There is no valid block here; Go goes on and searches for a later block.
    None,
    /// There is no valid block here, and Go stops searching.
    End,
}

/// Decodes the block that ends at `end` and begins at or after `from`. The type in its END line is at `trailer`.
fn block(data: &[u8], from: usize, end: usize, trailer: usize) -> PemSearch {
    let before = data.get(from..end).unwrap_or_default();
    let Some(begin) = before.windows(BEGIN.len()).rposition(|window| window == BEGIN) else {
        return PemSearch::None;
    };
    if begin > 0 && before.get(begin - 1) != Some(&b'\n') {
        return PemSearch::None;
    }
    let (type_line, mut text) = line(data, from + begin + BEGIN.len());
    let Some(name) = type_line.strip_suffix(DASHES) else {
        return PemSearch::None;
    };
    let mut headers = false;
    loop {
        if text >= data.len() {
            return PemSearch::End;
        }
        let (header, next) = line(data, text);
        if !header.contains(&b':') {
            break;
        }
        headers = true;
        text = next;
    }
    if headers && end < text {
        // The headers reach the END line or go beyond it.
        return if trailer < text {
            PemSearch::End
        } else {
            PemSearch::None
        };
    }
    let end_line = data.get(trailer..).unwrap_or_default();
    let ended = end_line
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(DASHES));
    if ended.is_none_or(|rest| !line(rest, 0).0.is_empty()) {
        return PemSearch::None;
    }
    let text = data.get(text..end).unwrap_or_default().iter().copied();
    let digits = text.filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    base64(digits).map_or(PemSearch::None, PemSearch::Block)
}

/// Returns the line at an offset, without trailing blanks and line end, and the offset of the next line.
fn line(data: &[u8], at: usize) -> (&[u8], usize) {
    let rest = data.get(at..).unwrap_or_default();
    let (line, next) = match rest.iter().position(|&byte| byte == b'\n') {
        Some(length) => {
            let line = rest.get(..length).unwrap_or_default();
            (line.strip_suffix(b"\r").unwrap_or(line), at + length + 1)
        }
        None => (rest, data.len()),
    };
    let blanks = line
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    (line.get(..line.len() - blanks).unwrap_or_default(), next)
}

/// Decodes padded base64. The unused bits of the last digit may have any value.
fn base64(text: impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut digits, mut padding) = (0u32, 0, 0);
    for byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' if digits + padding < 4 && digits >= 2 => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = bits << 6 | u32::from(digit);
        digits += 1;
        if digits == 4 {
            out.extend_from_slice(bits.to_be_bytes().get(1..)?);
            (bits, digits) = (0, 0);
        }
    }
    match (digits, padding) {
        (0, 0) => {}
        (2, 2) => out.push((bits >> 4) as u8),
        (3, 1) => out.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(out)
}

fn find(data: &[u8], what: &[u8]) -> Option<usize> {
    data.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<Vec<u8>> {
        decode(text.as_bytes())
    }

    const PLAIN: &str = "-----BEGIN X-----\nAQID\n-----END X-----\n";

    #[test]
    fn text_around_the_first_block_is_ignored() {
        for text in [
            PLAIN,
            &format!("hello\n{PLAIN}bye"),
            &format!("{PLAIN}{}", PLAIN.replace("AQID", "AQIE")),
        ] {
            assert_eq!(whole(text), Some(vec![1, 2, 3]), "{text:?}");
        }
        assert_eq!(whole(&format!("hello{PLAIN}")), None);
    }

    #[test]
    fn the_end_line_needs_the_type_of_the_begin_line() {
        assert_eq!(
            whole("-----BEGIN -----\nAQID\n-----END -----"),
            Some(vec![1, 2, 3])
        );
        assert_eq!(whole("-----BEGIN X-----\nAQID\n-----END Y-----"), None);
        assert_eq!(whole("-----BEGIN X-----\nAQID\n-----END X-----y"), None);
        assert_eq!(
            whole("-----BEGIN X-----\nAQID\n-----END X----- \t\r\nz"),
            Some(vec![1, 2, 3])
        );
    }

    #[test]
    fn headers_blanks_and_line_ends_are_accepted_as_by_go() {
        assert_eq!(
            whole("-----BEGIN X-----\r\na: b\r\n\r\nAQ\r\n ID\r\n-----END X-----"),
            Some(vec![1, 2, 3])
        );
        assert_eq!(
            whole("-----BEGIN X-----\na: b\nAQID\n-----END X-----"),
            Some(vec![1, 2, 3])
        );
        assert_eq!(whole("-----BEGIN X-----\n-----END X-----"), Some(vec![]));
        assert_eq!(whole("-----BEGIN X-----\na: b\n-----END X-----"), None);
    }

    #[test]
    fn base64_wants_its_padding_and_nothing_after_it() {
        let of = |text: &str| whole(&format!("-----BEGIN X-----\n{text}\n-----END X-----"));
        assert_eq!(of("AQ=="), Some(vec![1]));
        assert_eq!(of("AR=="), Some(vec![1]));
        assert_eq!(of("AQI="), Some(vec![1, 2]));
        assert_eq!(of("AQI"), None);
        assert_eq!(of("AQ="), None);
        assert_eq!(of("AQ==AQID"), None);
        assert_eq!(of("AQID="), None);
        assert_eq!(of("AQ-_"), None);
    }

    /// Several BEGINs are handled as in Go 1.25.3 and later; earlier versions tried the first BEGIN first.
    #[test]
    fn the_last_begin_line_before_an_end_line_counts() {
        let other = PLAIN.replace("AQID", "AQIE");
        // The last BEGIN before an END counts.
        assert_eq!(whole(&format!("-----BEGIN X-----\n{PLAIN}")), Some(vec![1, 2, 3]));
        assert_eq!(
            whole("-----BEGIN A-----\nAQIE\n-----BEGIN X-----\nAQID\n-----END X-----"),
            Some(vec![1, 2, 3])
        );
        // A BEGIN that is not at the start of a line makes its END unusable.
        let inside = format!("-----BEGIN X-----\nAQIE -----BEGIN X-----\nAQID\n-----END X-----\n{other}");
        assert_eq!(whole(&inside), Some(vec![1, 2, 4]));
        // Invalid blocks are skipped.
        for bad in [
            "-----BEGIN X-----\n!\n-----END X-----\n",
            "-----BEGIN X-----\nAQIE\n-----END Y-----\n",
            "-----BEGIN X\nAQIE\n-----END X-----\n",
            "text\n-----END X-----\n",
        ] {
            assert_eq!(whole(&format!("{bad}{PLAIN}")), Some(vec![1, 2, 3]), "{bad:?}");
        }
        // Headers that reach the END line are skipped, unless the END line itself looks like a header.
        let reached = "-----BEGIN X-----\na: b\n-----END X-----\n";
        assert_eq!(whole(&format!("{reached}{PLAIN}")), Some(vec![1, 2, 3]));
        let beyond = "-----BEGIN X:-----\na: b\n-----END X:-----\n";
        assert_eq!(whole(&format!("{beyond}{PLAIN}")), None);
    }
}
