// SPDX-License-Identifier: Apache-2.0
//
// Service of the wrappers for shells, which the build of a shell cannot pass as a parameter: `spv`, or `transfer` if
// the build defines LINESIDE_TRANSFER.

package ls_shell_pkg;

`ifdef LINESIDE_TRANSFER
  localparam bit IsTransfer = 1'b1;
`else
  localparam bit IsTransfer = 1'b0;
`endif

endpackage
