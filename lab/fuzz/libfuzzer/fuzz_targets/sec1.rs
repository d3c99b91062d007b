#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("sec1"), |data: &[u8]| {
    (lineside_fuzz::find("sec1").run)(data);
});
