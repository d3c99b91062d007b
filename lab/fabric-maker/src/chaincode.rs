//! The two generated chaincodes: arguments, reads and writes of their calls.

use lineside_testkit::Random;

/// A chaincode whose calls are generated. It has numbered keys; the value of each key consists of two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Chaincode {
    /// Accounts with savings and a current balance: payments read and write two keys, the other functions one key.
    Smallbank,
    /// Works with an owner and a count of plays: every function reads one key, and most of them write it.
    Drm,
}

/// Call of a chaincode.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub args: Vec<Vec<u8>>,
    /// Numbers of the keys that the call reads.
    pub keys: Vec<usize>,
    /// Values that the call writes to these keys; `None` if it only reads.
    pub values: Option<Vec<[u32; 2]>>,
}

impl Chaincode {
    /// Returns the name of the chaincode.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smallbank => "smallbank",
            Self::Drm => "drm",
        }
    }

    pub(crate) fn key(self, number: usize) -> String {
        match self {
            Self::Smallbank => format!("a{number:06}"),
            Self::Drm => format!("w{number:06}"),
        }
    }

    /// Returns a random call. `pick` returns the number and the value of a key to use.
    pub(crate) fn call(
        self,
        random: &mut Random,
        mut pick: impl FnMut(&mut Random) -> (usize, [u32; 2]),
    ) -> Call {
        let (first, [a, b]) = pick(random);
        let amount = 1 + random.index(100) as u32;
        let mut keys = vec![first];
        let (function, values) = match (self, random.index(100)) {
            (Self::Smallbank, 0..20) => ("transact_savings", Some(vec![[a + amount, b]])),
            (Self::Smallbank, 20..40) => ("deposit_checking", Some(vec![[a, b + amount]])),
            (Self::Smallbank, 40..55) => ("write_check", Some(vec![[a, b.saturating_sub(amount)]])),
            (Self::Smallbank, 55..95) => {
                let (second, [c, d]) = pick(random);
                let all = random.index(100) < 38;
                let moved = if all { b } else { amount.min(b) };
                let function = if all { "amalgamate" } else { "send_payment" };
                if second == first {
                    ("query", None)
                } else {
                    keys.push(second);
                    (function, Some(vec![[a, b - moved], [c, d.wrapping_add(moved)]]))
                }
            }
            (Self::Smallbank, _) | (Self::Drm, 90..) => ("query", None),
            (Self::Drm, 0..60) => ("play", Some(vec![[a, b + 1]])),
            (Self::Drm, _) => ("transfer", Some(vec![[amount, b]])),
        };
        let amount = values.is_some().then(|| amount.to_string());
        let names = keys.iter().map(|&number| self.key(number)).chain(amount);
        let args = std::iter::once(function.to_owned()).chain(names);
        Call {
            args: args.map(String::into_bytes).collect(),
            keys,
            values,
        }
    }
}
