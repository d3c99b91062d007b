#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("block"), |data: &[u8]| {
    (lineside_fuzz::find("block").run)(data);
});
