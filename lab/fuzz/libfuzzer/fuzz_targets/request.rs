#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("request"), |data: &[u8]| {
    (lineside_fuzz::find("request").run)(data);
});
