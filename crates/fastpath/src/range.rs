//! Ranges of IP addresses, in the representation that fast-path tables use.

use std::net::IpAddr;

/// Range of addresses with the same leading bits (CIDR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Any address of the range.
    pub address: IpAddr,
    /// Number of leading bits that all addresses of the range share.
    pub prefix_bits: u32,
}

impl Range {
    /// The loopback addresses of both families.
    pub const LOOPBACK: [Self; 2] = [
        Self {
            address: IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 0)),
            prefix_bits: 8,
        },
        Self {
            address: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
            prefix_bits: 128,
        },
    ];

    /// Returns the address and the mask of the range, each as two words in memory order; IPv4 is mapped into IPv6.
    pub fn words(&self) -> ([u64; 2], [u64; 2]) {
        let (number, above) = match self.address {
            IpAddr::V4(v4) => (u128::from(v4.to_ipv6_mapped()), 96),
            IpAddr::V6(v6) => (u128::from(v6), 0),
        };
        let bits = (self.prefix_bits + above).min(128);
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        (words(number & mask), words(mask))
    }

    /// Returns true if the range contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ([high, low], [high_mask, low_mask]) = self.words();
        let [own_high, own_low] = address_words(address);
        own_high & high_mask == high && own_low & low_mask == low
    }

    /// Returns true if the prefix is longer than an address of its family, that is, longer than 32 or 128 bits.
    pub const fn has_fault(&self) -> bool {
        self.prefix_bits > if self.address.is_ipv4() { 32 } else { 128 }
    }
}

/// Returns an address as two words, in the representation of [`Range::words`].
pub fn address_words(address: IpAddr) -> [u64; 2] {
    let whole = Range {
        address,
        prefix_bits: 128,
    };
    whole.words().0
}

fn words(number: u128) -> [u64; 2] {
    let high = (number >> 64) as u64;
    [high.to_be(), (number as u64).to_be()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_leading_bits_in_memory_order() {
        let range = Range {
            address: [10, 1, 2, 3].into(),
            prefix_bits: 16,
        };
        let (address, mask) = range.words();
        assert_eq!(
            address.map(u64::to_ne_bytes).concat(),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 0, 0]
        );
        assert_eq!(
            mask.map(u64::to_ne_bytes).concat()[10..],
            [255, 255, 255, 255, 0, 0]
        );
        let own = address_words([10, 1, 9, 9].into());
        assert_eq!([own[0] & mask[0], own[1] & mask[1]], address);
        assert!(range.contains([10, 1, 9, 9].into()) && !range.contains([10, 2, 2, 3].into()));
        assert!(!range.contains(std::net::Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn a_prefix_of_no_bits_is_everything() {
        let all = Range {
            address: std::net::Ipv6Addr::UNSPECIFIED.into(),
            prefix_bits: 0,
        };
        assert_eq!(all.words(), ([0; 2], [0; 2]));
        assert!(
            Range {
                prefix_bits: 33,
                ..Range::LOOPBACK[0]
            }
            .has_fault()
        );
        assert!(Range::LOOPBACK.iter().all(|range| !range.has_fault()));
    }
}
