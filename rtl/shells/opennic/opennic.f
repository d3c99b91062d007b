common/ls_reset_sync.sv
common/ls_frame_merge.sv
shells/ls_shell_pkg.sv
shells/ls_port.sv
shells/opennic/lineside_250mhz.sv
