#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("merkle"), |data: &[u8]| {
    (lineside_fuzz::find("merkle").run)(data);
});
