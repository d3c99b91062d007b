//! Parsing of transactions for a light client: their ids, their length, and the outputs of a coinbase.
//!
//! The parser allocates nothing and accepts what Bitcoin Core's deserialiser accepts: shortest lengths only, no
//! superfluous witness, no trailing bytes. Scripts and signatures are not checked. Formats: the developer reference
//! of bitcoin.org, "Raw transaction format", and BIP144.

use crate::hash::{sha256d, sha256d_parts};
use crate::{Hash, ProofError};

/// Beginning of the script of a coinbase output that commits to the witness root (BIP141): OP_RETURN, a push of 36
/// bytes, and four bytes of magic; 32 bytes follow.
const COMMITMENT: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
/// Maximum amount of bitcoins in satoshis. An output with a greater value is in no block.
const MAX_MONEY: u64 = 21_000_000 * 100_000_000;

/// One complete transaction: its bytes, and the slices of them that hold its parts.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    raw: &'a [u8],
    /// Bytes of inputs and outputs, with their counts.
    body: &'a [u8],
    /// Bytes of the outputs, without their count.
    outputs: &'a [u8],
    output_count: u64,
    is_coinbase: bool,
}

impl<'a> Transaction<'a> {
    /// Reads a transaction, with its witness or without.
    ///
    /// # Errors
    /// [`ProofError::MalformedTransaction`] unless `raw` is exactly one transaction with at least one input and one
    /// output.
    pub fn parse(raw: &'a [u8]) -> Result<Transaction<'a>, ProofError> {
        Transaction::read(raw).ok_or(ProofError::MalformedTransaction)
    }

    fn read(raw: &'a [u8]) -> Option<Transaction<'a>> {
        let mut rest = Reader(raw);
        rest.take(4)?;
        let has_witness = rest.0.starts_with(&[0, 1]);
        if has_witness {
            rest.take(2)?;
        }
        let body = rest.0;
        let input_count = rest.count()?;
        let is_coinbase = input_count == 1 && rest.0.starts_with(&NULL_OUTPOINT);
        for _ in 0..input_count {
            rest.take(36)?;
            rest.skip_bytes()?;
            rest.take(4)?;
        }
        let output_count = rest.count()?;
        let outputs = rest.0;
        for _ in 0..output_count {
            rest.output()?;
        }
        let body = &body[..body.len() - rest.0.len()];
        let outputs = &outputs[..outputs.len() - rest.0.len()];
        if has_witness {
            rest.skip_witness(input_count)?;
        }
        rest.take(4)?;
        let is_complete = rest.0.is_empty() && input_count > 0 && output_count > 0;
        is_complete.then_some(Transaction {
            raw,
            body,
            outputs,
            output_count,
            is_coinbase,
        })
    }

    /// Returns the TXID: the hash of the transaction without its witness.
    pub fn txid(&self) -> Hash {
        let (version, lock_time) = (&self.raw[..4], &self.raw[self.raw.len() - 4..]);
        sha256d_parts(&[version, self.body, lock_time])
    }

    /// Returns the WTXID: the hash of all bytes. A coinbase's leaf in the witness tree is 0 instead.
    pub fn wtxid(&self) -> Hash {
        sha256d(self.raw)
    }

    /// Returns true if the bytes have a witness.
    pub fn has_witness(&self) -> bool {
        self.base_bytes() != self.raw.len()
    }

    /// Returns the length in bytes without the witness: the part whose hash is the TXID.
    pub fn base_bytes(&self) -> usize {
        4 + self.body.len() + 4
    }

    /// Returns true for a coinbase: one input, which spends nothing.
    pub fn is_coinbase(&self) -> bool {
        self.is_coinbase
    }

    /// Returns the witness commitment of a coinbase: the 32 bytes in the last output that has one (BIP141).
    pub fn witness_commitment(&self) -> Option<Hash> {
        let mut rest = Reader(self.outputs);
        let mut found = None;
        for _ in 0..self.output_count {
            let script = rest.output()?;
            if let Some(after) = script.strip_prefix(&COMMITMENT) {
                found = after.first_chunk().copied().or(found);
            }
        }
        found
    }
}

/// Outpoint of a coinbase's input: 32 zero bytes and the index 2^32 - 1. It refers to no transaction.
const NULL_OUTPOINT: [u8; 36] = {
    let mut bytes = [0; 36];
    bytes[32] = 0xff;
    bytes[33] = 0xff;
    bytes[34] = 0xff;
    bytes[35] = 0xff;
    bytes
};

/// Reader of a transaction; holds the bytes that are not read yet. Its functions return `None` at a malformed field.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a count or length in its shortest form.
    fn count(&mut self) -> Option<u64> {
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (value, least) = match self.take(1)?[0] {
            0xfd => (number(self.take(2)?), 0xfd),
            0xfe => (number(self.take(4)?), 0x1_0000),
            0xff => (number(self.take(8)?), 0x1_0000_0000),
            small => (u64::from(small), 0),
        };
        (value >= least).then_some(value)
    }

    /// Reads a length, skips this number of bytes, and returns the skipped bytes.
    fn skip_bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.count()?).ok()?;
        self.take(length)
    }

    /// Reads an output; returns its script.
    fn output(&mut self) -> Option<&'a [u8]> {
        self.take(8)?;
        self.skip_bytes()
    }

    /// Skips the witness of each input. At least one of them must not be empty.
    fn skip_witness(&mut self, input_count: u64) -> Option<()> {
        let mut has_items = false;
        for _ in 0..input_count {
            let items = self.count()?;
            for _ in 0..items {
                self.skip_bytes()?;
            }
            has_items |= items > 0;
        }
        has_items.then_some(())
    }
}

/// Returns true if 64 bytes are a transaction that a block can hold. If an inner node has these bytes, its children
/// are not hashes, but halves of a transaction (CVE-2017-12842).
///
/// A transaction of 64 bytes has one input, one output, and two scripts with 4 bytes together. Fewer than one in
/// 10^12 random nodes have this form, because a value above [`MAX_MONEY`] is in no block.
pub(crate) fn is_transaction(bytes: &[u8; 64]) -> bool {
    let input_script = usize::from(bytes[41]);
    if bytes[4] != 1 || input_script > 4 {
        return false;
    }
    let after = &bytes[42 + input_script..];
    let value = after[5..13]
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    after[4] == 1 && value <= MAX_MONEY && usize::from(after[13]) == 4 - input_script
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::consensus::{deserialize, serialize};
    use bitcoin::hashes::Hash as _;
    use lineside_testkit::Random;

    /// Returns a transaction whose scripts have these lengths.
    fn transaction(input_script: usize, output_script: usize, value: u64) -> Vec<u8> {
        let mut raw = vec![1, 0, 0, 0, 1];
        raw.extend([7; 36]);
        raw.push(input_script as u8);
        raw.extend(vec![0x51; input_script]);
        raw.extend([0xff; 4]);
        raw.push(1);
        raw.extend(value.to_le_bytes());
        raw.push(output_script as u8);
        raw.extend(vec![0x51; output_script]);
        raw.extend([0; 4]);
        raw
    }

    #[test]
    fn transactions_of_64_bytes_are_found_in_all_their_forms_and_no_other() {
        for input_script in 0..=4 {
            let raw: [u8; 64] = transaction(input_script, 4 - input_script, 9).try_into().unwrap();
            assert!(is_transaction(&raw), "{input_script}");
            assert!(Transaction::parse(&raw).is_ok());
            for (at, value) in [
                (4, 2),
                (4, 0),
                (41, 5),
                (46 + input_script, 2),
                (55 + input_script, 5),
            ] {
                let mut other = raw;
                other[at] = value;
                assert!(!is_transaction(&other), "{input_script}: byte {at}");
            }
            let rich = transaction(input_script, 4 - input_script, MAX_MONEY + 1);
            assert!(!is_transaction(&rich.try_into().unwrap()));
        }
    }

    /// Parses random bytes that are nearly a transaction: this crate and the `bitcoin` crate must accept the same
    /// inputs, and return the same ids.
    #[test]
    fn transactions_parse_as_in_the_bitcoin_crate() {
        let mut random = Random(3);
        let mut seeds = Vec::new();
        for (inputs, outputs) in [(1, 1), (2, 3), (3, 1)] {
            for witness in [false, true] {
                let mut raw = vec![2, 0, 0, 0];
                raw.extend(if witness { &[0, 1][..] } else { &[] });
                raw.push(inputs);
                for _ in 0..inputs {
                    raw.extend([9; 36]);
                    raw.extend([2, 0x51, 0x52, 1, 2, 3, 4]);
                }
                raw.push(outputs);
                for _ in 0..outputs {
                    raw.extend([1, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]);
                }
                raw.extend(if witness {
                    [1, 1, 5].repeat(inputs.into())
                } else {
                    vec![]
                });
                raw.extend([0; 4]);
                seeds.push(raw);
            }
        }
        let mut taken = 0;
        for round in 0..100_000 {
            let mut raw = seeds[round % seeds.len()].clone();
            for _ in 0..random.below(3) {
                let at = random.index(raw.len());
                raw[at] = [random.next() as u8, 0, 1, 2, 3, 0xfd][random.index(6)];
            }
            let oracle = deserialize::<bitcoin::Transaction>(&raw);
            // The `bitcoin` crate also accepts transactions without inputs (after a superfluous witness flag) or
            // without outputs, which this crate refuses.
            let oracle = oracle
                .ok()
                .filter(|tx| !tx.input.is_empty() && !tx.output.is_empty());
            match (Transaction::parse(&raw), oracle) {
                (Ok(read), Some(oracle)) => {
                    assert_eq!(serialize(&oracle), raw);
                    assert_eq!(read.txid(), oracle.compute_txid().to_byte_array());
                    assert_eq!(read.wtxid(), oracle.compute_wtxid().to_byte_array());
                    assert_eq!(read.base_bytes(), oracle.base_size());
                    assert_eq!(read.is_coinbase(), oracle.is_coinbase());
                    taken += 1;
                }
                (Err(_), None) => {}
                (read, oracle) => panic!("{raw:02x?}: {read:?}, {oracle:?}"),
            }
        }
        assert!(taken > 50_000, "{taken}");
    }
}
