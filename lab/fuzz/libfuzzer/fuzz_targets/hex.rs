#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("hex"), |data: &[u8]| {
    (lineside_fuzz::find("hex").run)(data);
});
