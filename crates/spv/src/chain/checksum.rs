//! CRC32C (Castagnoli): by the SSE4.2 instruction if the processor has it, otherwise by a table.

/// Returns the CRC32C of `bytes`.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: `by_instruction` needs SSE4.2, and the line above checks that the processor has it.
        return unsafe { by_instruction(bytes) };
    }
    by_table(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn by_instruction(bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = u64::from(u32::MAX);
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let mut crc = crc as u32;
    for &byte in rest {
        crc = _mm_crc32_u8(crc, byte);
    }
    !crc
}

fn by_table(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8)
    })
}

static TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_implementations_return_the_known_checksums() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(by_table(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 13) as u8).collect();
        for len in [0, 1, 7, 8, 9, 31, 32, 1000] {
            assert_eq!(crc32c(&bytes[..len]), by_table(&bytes[..len]));
        }
    }
}
