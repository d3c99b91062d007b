// Generated from spec/*.toml by `cargo run -p lineside-spec`. Do not edit.

//! Commands and registers of the RTL.

/// Command `line`; `spec/rtl.toml` explains it.
pub const COMMAND_LINE: u32 = 1;
/// Command `block_hash`; `spec/rtl.toml` explains it.
pub const COMMAND_BLOCK_HASH: u32 = 2;
/// Command `block`; `spec/rtl.toml` explains it.
pub const COMMAND_BLOCK: u32 = 3;
/// Command `tip`; `spec/rtl.toml` explains it.
pub const COMMAND_TIP: u32 = 4;
/// Command `register`; `spec/rtl.toml` explains it.
pub const COMMAND_REGISTER: u32 = 5;
/// Command `barrier`; `spec/rtl.toml` explains it.
pub const COMMAND_BARRIER: u32 = 6;
/// Offset of the field `op` in a command, in bytes.
pub const COMMAND_OP_AT: usize = 0;
/// Offset of the field `index` in a command, in bytes.
pub const COMMAND_INDEX_AT: usize = 4;
/// Offset of the field `first` in a command, in bytes.
pub const COMMAND_FIRST_AT: usize = 8;
/// Offset of the field `second` in a command, in bytes.
pub const COMMAND_SECOND_AT: usize = 12;
/// Offset of the field `value` in a command, in bytes.
pub const COMMAND_VALUE_AT: usize = 16;
/// Offset of the field `reserved` in a command, in bytes.
pub const COMMAND_RESERVED_AT: usize = 48;
/// Bytes of a command.
pub const COMMAND_BYTES: usize = 64;
/// Register `mac` of 48 bits; `spec/rtl.toml` explains it.
pub const REGISTER_MAC: u32 = 0;
/// Register `loopback` of 1 bits; `spec/rtl.toml` explains it.
pub const REGISTER_LOOPBACK: u32 = 1;
/// Register `v4_own` of 8 bits; `spec/rtl.toml` explains it.
pub const REGISTER_V4_OWN: u32 = 2;
/// Register `v4_answered` of 8 bits; `spec/rtl.toml` explains it.
pub const REGISTER_V4_ANSWERED: u32 = 3;
/// Register `v6_own` of 8 bits; `spec/rtl.toml` explains it.
pub const REGISTER_V6_OWN: u32 = 4;
/// Register `v6_answered` of 8 bits; `spec/rtl.toml` explains it.
pub const REGISTER_V6_ANSWERED: u32 = 5;
/// Register `v4` of 64 bits; `spec/rtl.toml` explains it.
pub const REGISTER_V4: u32 = 16;
/// Number of registers `v4`.
pub const REGISTER_V4_COUNT: u32 = 8;
/// Register `v6` of 128 bits; `spec/rtl.toml` explains it.
pub const REGISTER_V6: u32 = 24;
/// Number of registers `v6`.
pub const REGISTER_V6_COUNT: u32 = 8;
/// Register `spv_port` of 16 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_PORT: u32 = 32;
/// Register `spv_lease_until_ns` of 64 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_LEASE_UNTIL_NS: u32 = 33;
/// Register `spv_epoch` of 64 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_EPOCH: u32 = 34;
/// Register `spv_key` of 192 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_KEY: u32 = 35;
/// Register `spv_set_bits` of 5 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_SET_BITS: u32 = 36;
/// Register `spv_ways` of 3 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_WAYS: u32 = 37;
/// Register `spv_block_mask` of 32 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_BLOCK_MASK: u32 = 38;
/// Register `spv_paper_index` of 1 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_PAPER_INDEX: u32 = 39;
/// Register `spv_paper_format` of 1 bits; `spec/rtl.toml` explains it.
pub const REGISTER_SPV_PAPER_FORMAT: u32 = 40;
