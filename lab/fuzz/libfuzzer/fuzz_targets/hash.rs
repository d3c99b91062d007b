#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("hash"), |data: &[u8]| {
    (lineside_fuzz::find("hash").run)(data);
});
