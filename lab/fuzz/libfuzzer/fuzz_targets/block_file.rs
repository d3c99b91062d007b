#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("block_file"), |data: &[u8]| {
    (lineside_fuzz::find("block_file").run)(data);
});
