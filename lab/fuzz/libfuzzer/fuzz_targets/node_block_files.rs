#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("node_block_files"), |data: &[u8]| {
    (lineside_fuzz::find("node_block_files").run)(data);
});
