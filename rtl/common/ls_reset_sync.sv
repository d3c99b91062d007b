// SPDX-License-Identifier: Apache-2.0
//
// Carries a reset into the clock of its user: rst_no follows rst_ni two to three cycles later, in both directions. The
// reset has to last for four cycles of clk_i.

module ls_reset_sync (
    input  logic clk_i,
    input  logic rst_ni,
    output logic rst_no
);

  (* async_reg = "true" *) logic [1:0] sync_q;

  always_ff @(posedge clk_i) sync_q <= {sync_q[0], rst_ni};

  assign rst_no = sync_q[1];

endmodule
