#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("spv_header_file"), |data: &[u8]| {
    (lineside_fuzz::find("spv_header_file").run)(data);
});
