// SPDX-License-Identifier: Apache-2.0
//
// Simulation shell of ls_transfer_store: the structures as ports of their own, and two windows for the test: the order
// in which the store takes its inputs, and the memories.

module ls_transfer_shell
  import ls_transfer_pkg::*;
#(
    parameter int unsigned BucketBits = 3,
    localparam int unsigned CellBits = BucketBits + WayBits
) (
    input logic clk_i,
    input logic rst_ni,
    input logic [HashKeyBits-1:0] hash_key_i,

    input  logic    op_valid_i,
    output logic    op_ready_o,
    input  user_t   op_user_i,
    input  logic    op_keep_i,
    input  logic    op_is_paper_i,
    input  logic [3:0] op_refused_i,
    input  logic [3:0] op_command_i,
    input  paper_t  op_number_i,
    input  id_t     op_source_i,
    input  id_t     op_destination_i,
    input  amount_t op_amount_i,

    output logic     res_valid_o,
    input  logic     res_ready_i,
    output user_t    res_user_o,
    output logic [3:0] res_code_o,
    output logic     res_forward_o,
    output logic     res_repeated_o,
    output logic     res_recorded_o,
    output amount_t  res_balance_o,
    output amount_t  res_destination_balance_o,
    output amount_t  res_held_o,
    output version_t res_version_o,
    output logic     res_frozen_o,

    output logic     rec_valid_o,
    input  logic     rec_ready_i,
    output user_t    rec_user_o,
    output logic [3:0] rec_code_o,
    output logic [3:0] rec_command_o,
    output paper_t   rec_number_o,
    output id_t      rec_source_o,
    output id_t      rec_destination_o,
    output amount_t  rec_amount_o,
    output version_t rec_source_version_o,
    output version_t rec_destination_version_o,
    output amount_t  rec_source_balance_o,

    input  logic  ord_valid_i,
    output logic  ord_ready_o,
    input  user_t ord_user_i,
    input  logic ord_linked_i,
    input  logic [3:0] ord_kind_i,
    input  id_t   ord_id_i,
    input  logic [$bits(cell_t)-1:0] ord_account_i,

    output logic  rsp_valid_o,
    input  logic  rsp_ready_i,
    output user_t rsp_user_o,
    output logic [3:0] rsp_code_o,
    output version_t rsp_records_o,
    output logic [$bits(cell_t)-1:0] rsp_account_o,

    // Windows.
    output logic order_taken_o,
    input  logic [CellBits-1:0] peek_i,
    output logic [1:0] peek_used_o,  // of both copies of the ids
    output id_t [1:0] peek_id_o,
    output logic [$bits(cell_t)-1:0] peek_account_o
);

  operation_t operation;
  result_t result;
  record_t record;
  order_t order;
  response_t response;
  logic is_full, may_forward, unused_flags;

  assign operation = '{
          user: op_user_i,
          keep_refusals: op_keep_i,
          is_paper: op_is_paper_i,
          refused: code_e'(op_refused_i),
          command: op_command_i,
          number: op_number_i,
          source: op_source_i,
          destination: op_destination_i,
          amount: op_amount_i
      };
  assign order = '{
          user: ord_user_i,
          linked: ord_linked_i,
          kind: order_e'(ord_kind_i),
          id: ord_id_i,
          account: cell_t'(ord_account_i)
      };

  ls_transfer_store #(
      .BucketBits(BucketBits)
  ) u_store (
      .clk_i,
      .rst_ni,
      .hash_key_i,
      .operation_valid_i(op_valid_i),
      .operation_ready_o(op_ready_o),
      .operation_i(operation),
      .result_valid_o(res_valid_o),
      .result_ready_i(res_ready_i),
      .result_o(result),
      .record_valid_o(rec_valid_o),
      .record_ready_i(rec_ready_i),
      .record_o(record),
      .record_left_i(rec_valid_o && rec_ready_i),
      .order_valid_i(ord_valid_i),
      .order_ready_o(ord_ready_o),
      .order_i(order),
      .response_valid_o(rsp_valid_o),
      .response_ready_i(rsp_ready_i),
      .response_o(response),
      .is_full_o(is_full),
      .may_forward_o(may_forward)
  );

  assign unused_flags = &{1'b0, is_full, may_forward};
  assign res_user_o = result.user;
  assign res_code_o = result.code;
  assign res_forward_o = result.forward;
  assign res_repeated_o = result.repeated;
  assign res_recorded_o = result.recorded;
  assign res_balance_o = result.balance;
  assign res_destination_balance_o = result.destination_balance;
  assign res_held_o = result.held;
  assign res_version_o = result.version;
  assign res_frozen_o = result.frozen;
  assign rec_user_o = record.user;
  assign rec_code_o = record.code;
  assign rec_command_o = record.command;
  assign rec_number_o = record.number;
  assign rec_source_o = record.source;
  assign rec_destination_o = record.destination;
  assign rec_amount_o = record.amount;
  assign rec_source_version_o = record.source_version;
  assign rec_destination_version_o = record.destination_version;
  assign rec_source_balance_o = record.source_balance;
  assign rsp_user_o = response.user;
  assign rsp_code_o = response.code;
  assign rsp_records_o = response.records;
  assign rsp_account_o = response.account;

  assign order_taken_o = u_store.take_order;
  assign peek_account_o = u_store.u_execute.u_cells.memory[peek_i];
  for (genvar b = 0; b < 2; b++) begin : gen_peek
    logic [Ways-1:0] used;
    id_t [Ways-1:0] id;
    for (genvar w = 0; w < int'(Ways); w++) begin : gen_way
      assign {used[w], id[w]} =
          u_store.u_search.gen_bucket[b].gen_way[w].u_ids.memory[peek_i[CellBits-1:WayBits]];
    end
    assign peek_used_o[b] = used[peek_i[WayBits-1:0]];
    assign peek_id_o[b] = id[peek_i[WayBits-1:0]];
  end

endmodule
