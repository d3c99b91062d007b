#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("der"), |data: &[u8]| {
    (lineside_fuzz::find("der").run)(data);
});
