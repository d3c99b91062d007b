#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("adopt"), |data: &[u8]| {
    (lineside_fuzz::find("adopt").run)(data);
});
