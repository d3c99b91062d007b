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
/// Command `transfer_last`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_LAST: u32 = 16;
/// Command `transfer_read`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_READ: u32 = 17;
/// Command `transfer_fill`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_FILL: u32 = 18;
/// Command `transfer_put`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_PUT: u32 = 19;
/// Command `transfer_remove`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_REMOVE: u32 = 20;
/// Command `transfer_claim`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_CLAIM: u32 = 21;
/// Command `transfer_release`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_RELEASE: u32 = 22;
/// Command `transfer_grant`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_GRANT: u32 = 23;
/// Command `transfer_session`; `spec/rtl.toml` explains it.
pub const COMMAND_TRANSFER_SESSION: u32 = 24;
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
/// Offset of the field `id` in a command, in bytes.
pub const COMMAND_ID_AT: usize = 48;
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
/// Register `transfer_port` of 16 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_PORT: u32 = 48;
/// Register `transfer_lease_until_ns` of 64 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_LEASE_UNTIL_NS: u32 = 49;
/// Register `transfer_key` of 192 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_KEY: u32 = 50;
/// Register `transfer_mode` of 2 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_MODE: u32 = 51;
/// Register `transfer_paper_format` of 1 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_PAPER_FORMAT: u32 = 52;
/// Register `transfer_require_signature` of 1 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_REQUIRE_SIGNATURE: u32 = 53;
/// Register `transfer_issuers` of 8 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_ISSUERS: u32 = 54;
/// Register `transfer_sessions` of 32 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_SESSIONS: u32 = 55;
/// Register `transfer_issuer` of 256 bits; `spec/rtl.toml` explains it.
pub const REGISTER_TRANSFER_ISSUER: u32 = 64;
/// Number of registers `transfer_issuer`.
pub const REGISTER_TRANSFER_ISSUER_COUNT: u32 = 8;
/// Offset of the field `source` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_SOURCE_AT: usize = 0;
/// Offset of the field `destination` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_DESTINATION_AT: usize = 16;
/// Offset of the field `amount` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_AMOUNT_AT: usize = 32;
/// Offset of the field `source_version` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_SOURCE_VERSION_AT: usize = 40;
/// Offset of the field `destination_version` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_DESTINATION_VERSION_AT: usize = 48;
/// Offset of the field `source_balance` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_SOURCE_BALANCE_AT: usize = 56;
/// Offset of the field `slot` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_SLOT_AT: usize = 64;
/// Offset of the field `command` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_COMMAND_AT: usize = 68;
/// Offset of the field `place` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_PLACE_AT: usize = 72;
/// Offset of the field `nonce` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_NONCE_AT: usize = 76;
/// Offset of the field `session_sequence` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_SESSION_SEQUENCE_AT: usize = 80;
/// Offset of the field `sum` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_SUM_AT: usize = 88;
/// Offset of the field `timestamp` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_TIMESTAMP_AT: usize = 96;
/// Offset of the field `uuid` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_UUID_AT: usize = 104;
/// Offset of the field `time_ns` in an entry of `transfer_record`, in bytes.
pub const TRANSFER_RECORD_TIME_NS_AT: usize = 120;
/// Bytes of an entry of the stream `transfer_record`.
pub const TRANSFER_RECORD_BYTES: usize = 128;
/// Offset of the field `index` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_INDEX_AT: usize = 0;
/// Offset of the field `code` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_CODE_AT: usize = 4;
/// Offset of the field `records` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_RECORDS_AT: usize = 8;
/// Offset of the field `balance` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_BALANCE_AT: usize = 16;
/// Offset of the field `held_out` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_HELD_OUT_AT: usize = 24;
/// Offset of the field `held_in` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_HELD_IN_AT: usize = 32;
/// Offset of the field `version` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_VERSION_AT: usize = 40;
/// Offset of the field `last_id` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_LAST_ID_AT: usize = 48;
/// Offset of the field `last_amount` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_LAST_AMOUNT_AT: usize = 52;
/// Offset of the field `last_reply` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_LAST_REPLY_AT: usize = 56;
/// Offset of the field `last_destination` in an entry of `transfer_response`, in bytes.
pub const TRANSFER_RESPONSE_LAST_DESTINATION_AT: usize = 60;
/// Bytes of an entry of the stream `transfer_response`.
pub const TRANSFER_RESPONSE_BYTES: usize = 64;
/// Offset of the field `index` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_INDEX_AT: usize = 0;
/// Offset of the field `code` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_CODE_AT: usize = 4;
/// Offset of the field `operation_code` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_OPERATION_CODE_AT: usize = 8;
/// Offset of the field `reserved` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_RESERVED_AT: usize = 12;
/// Offset of the field `records` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_RECORDS_AT: usize = 16;
/// Offset of the field `token` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_TOKEN_AT: usize = 24;
/// Offset of the field `session_sequence` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_SESSION_SEQUENCE_AT: usize = 32;
/// Offset of the field `sum` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_SUM_AT: usize = 40;
/// Offset of the field `amount` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_AMOUNT_AT: usize = 48;
/// Offset of the field `reserved_2` in an entry of `transfer_session_response`, in bytes.
pub const TRANSFER_SESSION_RESPONSE_RESERVED_2_AT: usize = 56;
/// Bytes of an entry of the stream `transfer_session_response`.
pub const TRANSFER_SESSION_RESPONSE_BYTES: usize = 64;
/// Value of the AXI4-Lite word `identity`.
pub const AXIL_IDENTITY: u32 = 0x4c535254;
/// Address of the AXI4-Lite word `identity`.
pub const AXIL_IDENTITY_AT: u32 = 0x0;
/// Address of the AXI4-Lite word `version`.
pub const AXIL_VERSION_AT: u32 = 0x4;
/// Address of the AXI4-Lite word `table`.
pub const AXIL_TABLE_AT: u32 = 0x8;
/// Address of the AXI4-Lite word `scratch`.
pub const AXIL_SCRATCH_AT: u32 = 0xc;
/// Address of the AXI4-Lite word `status`.
pub const AXIL_STATUS_AT: u32 = 0x10;
/// Address of the AXI4-Lite word `doorbell`.
pub const AXIL_DOORBELL_AT: u32 = 0x14;
/// Address of the AXI4-Lite word `commands_done`.
pub const AXIL_COMMANDS_DONE_AT: u32 = 0x18;
/// Address of the AXI4-Lite word `barrier`.
pub const AXIL_BARRIER_AT: u32 = 0x1c;
/// Address of the AXI4-Lite word `clock`.
pub const AXIL_CLOCK_AT: u32 = 0x20;
/// Address of the AXI4-Lite word `clock_step`.
pub const AXIL_CLOCK_STEP_AT: u32 = 0x28;
/// Address of the AXI4-Lite word `command`.
pub const AXIL_COMMAND_AT: u32 = 0x40;
/// Address of the first counter of `drops`.
pub const AXIL_COUNTERS_DROPS_AT: u32 = 0x100;
/// Address of the first counter of `spv`.
pub const AXIL_COUNTERS_SPV_AT: u32 = 0x200;
/// Address of the first counter of `transfer`.
pub const AXIL_COUNTERS_TRANSFER_AT: u32 = 0x300;
/// Address of register 0.
pub const AXIL_REGISTERS_AT: u32 = 0x1000;
/// Bytes from one register to the next.
pub const AXIL_REGISTER_STRIDE: u32 = 0x20;
