// SPDX-License-Identifier: Apache-2.0
//
// Types between the AXI4-Lite slave and the registers.

package ls_control_pkg;

  import ls_pkg::*;

  localparam int unsigned AddressBits = AxilAddressBits;

  // Read or write of a word. The lowest two bits of the address are ignored.
  typedef struct packed {
    logic is_write;
    logic [AddressBits-1:0] address;
    logic [31:0] data;
  } bus_request_t;

  typedef struct packed {
    logic is_error;  // SLVERR; the request had no effect
    logic [31:0] data;
  } bus_response_t;

endpackage
