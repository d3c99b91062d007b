#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("console_request"), |data: &[u8]| {
    (lineside_fuzz::find("console_request").run)(data);
});
