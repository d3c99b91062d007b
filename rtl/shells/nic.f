common/ls_clock.sv
pipeline/ls_control_pkg.sv
pipeline/ls_axil.sv
pipeline/ls_axil_cross.sv
pipeline/ls_registers.sv
pipeline/ls_control.sv
shells/ls_nic.sv
