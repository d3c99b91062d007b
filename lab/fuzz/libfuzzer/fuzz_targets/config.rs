#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("config"), |data: &[u8]| {
    (lineside_fuzz::find("config").run)(data);
});
