#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("spv_proof"), |data: &[u8]| {
    (lineside_fuzz::find("spv_proof").run)(data);
});
