#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("frame"), |data: &[u8]| {
    (lineside_fuzz::find("frame").run)(data);
});
