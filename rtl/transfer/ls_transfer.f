../common/ls_pkg.sv
../common/ls_fifo.sv
../common/ls_index_hash.sv
ls_transfer_pkg.sv
ls_transfer_ram.sv
ls_transfer_search.sv
ls_transfer_execute.sv
ls_transfer_store.sv
