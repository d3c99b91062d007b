#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("ecdsa"), |data: &[u8]| {
    (lineside_fuzz::find("ecdsa").run)(data);
});
