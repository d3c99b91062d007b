//! Commands of the host to the RTL, in the layout of `spec/rtl.toml`.

use crate::generated::{
    COMMAND_BYTES, COMMAND_FIRST_AT, COMMAND_ID_AT, COMMAND_INDEX_AT, COMMAND_OP_AT, COMMAND_REGISTER,
    COMMAND_SECOND_AT, COMMAND_VALUE_AT, REGISTER_LOOPBACK, REGISTER_MAC, REGISTER_V4, REGISTER_V4_ANSWERED,
    REGISTER_V4_OWN, REGISTER_V6, REGISTER_V6_ANSWERED, REGISTER_V6_OWN,
};
use lineside_wire::csum;
use lineside_wire::endpoint::Endpoint;

/// Command of the host to the RTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command(pub [u8; COMMAND_BYTES]);

impl Command {
    /// Returns a command. `op` is one of the constants `COMMAND_…`; `spec/rtl.toml` explains the arguments. `value`
    /// has at most 32 bytes, and zeros follow it.
    ///
    /// # Panics
    /// Panics if `value` is longer than 32 bytes.
    pub fn new(op: u32, index: u32, first: u32, second: u32, value: &[u8]) -> Self {
        assert!(value.len() <= 32, "the value of a command has at most 32 bytes");
        let mut bytes = [0; COMMAND_BYTES];
        let words = [
            (COMMAND_OP_AT, op),
            (COMMAND_INDEX_AT, index),
            (COMMAND_FIRST_AT, first),
            (COMMAND_SECOND_AT, second),
        ];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[COMMAND_VALUE_AT..COMMAND_VALUE_AT + value.len()].copy_from_slice(value);
        Self(bytes)
    }

    /// Returns the command with the account `id`, for commands of `transfer`.
    #[must_use]
    pub fn with_id(mut self, id: &[u8; 16]) -> Self {
        self.0[COMMAND_ID_AT..COMMAND_ID_AT + id.len()].copy_from_slice(id);
        self
    }

    /// Returns the command that writes the register `index` (one of the constants `REGISTER_…`). `value` begins with
    /// the least significant byte.
    pub fn register(index: u32, value: &[u8]) -> Self {
        Self::new(COMMAND_REGISTER, index, 0, 0, value)
    }
}

/// Returns the sum of the 16-bit words of `bytes` in network order, with end-around carry: the sum that the commands
/// `block`, `block_hash` and `tip` contain.
pub fn folded_sum(bytes: &[u8]) -> u32 {
    csum::fold(csum::sum(bytes)).into()
}

/// Returns the commands that write the addresses of the interface.
pub fn endpoint_commands(endpoint: &Endpoint) -> Vec<Command> {
    let mut commands = vec![
        Command::register(REGISTER_MAC, &endpoint.mac),
        Command::register(REGISTER_LOOPBACK, &[endpoint.loopback.into()]),
    ];
    let (mut own, mut answered) = (0u8, 0u8);
    for (number, (address, broadcast)) in (0u32..).zip(endpoint.v4_with_broadcasts()) {
        let value = [address.octets(), broadcast.octets()].concat();
        commands.push(Command::register(REGISTER_V4 + number, &value));
        own |= 1 << number;
        answered |= u8::from(endpoint.answers(address.into())) << number;
    }
    commands.push(Command::register(REGISTER_V4_OWN, &[own]));
    commands.push(Command::register(REGISTER_V4_ANSWERED, &[answered]));
    (own, answered) = (0, 0);
    for (number, address) in (0u32..).zip(endpoint.v6()) {
        commands.push(Command::register(REGISTER_V6 + number, &address.octets()));
        own |= 1 << number;
        answered |= u8::from(endpoint.answers(address.into())) << number;
    }
    commands.push(Command::register(REGISTER_V6_OWN, &[own]));
    commands.push(Command::register(REGISTER_V6_ANSWERED, &[answered]));
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_has_an_end_around_carry() {
        assert_eq!(folded_sum(&[0xff, 0xff, 0x00, 0x02]), 2);
        assert_eq!(folded_sum(&[]), 0);
    }

    #[test]
    fn an_address_that_is_not_answered_is_still_an_own_one() {
        let addresses = ["10.0.0.2", "10.0.0.3"].map(|text| text.parse().unwrap());
        let mut endpoint = Endpoint::new([2, 0, 0, 0, 0, 2], false, &addresses).unwrap();
        assert!(endpoint.keep_only(addresses[1]));
        let commands = endpoint_commands(&endpoint);
        assert!(commands.contains(&Command::register(REGISTER_V4_OWN, &[0b11])));
        assert!(commands.contains(&Command::register(REGISTER_V4_ANSWERED, &[0b10])));
    }
}
