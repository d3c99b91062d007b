// Sizes of the table in the simulated NIC. The build script passes them to Verilator, so both include this file.

/// Binary logarithm of the number of lines in the table of the simulated NIC.
pub const SIM_LINE_BITS: u32 = 18;
/// Binary logarithm of the number of block slots in the table of the simulated NIC.
pub const SIM_BLOCK_BITS: u32 = 12;
