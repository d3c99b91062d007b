// Sizes of the tables in the simulated NIC. The build script passes them to Verilator, so both include this file.

/// Binary logarithm of the number of lines in the table of the simulated NIC.
pub const SIM_LINE_BITS: u32 = 18;
/// Binary logarithm of the number of block slots in the table of the simulated NIC.
pub const SIM_BLOCK_BITS: u32 = 12;
/// Binary logarithm of the number of buckets of four accounts in the simulated NIC of `transfer`.
pub const SIM_BUCKET_BITS: u32 = 14;
/// Binary logarithm of the number of sessions in the simulated NIC of `transfer`.
pub const SIM_SESSION_BITS: u32 = 12;
/// Number of records that the simulated NIC of `transfer` can hold.
pub const SIM_RECORDS: u32 = 256;
