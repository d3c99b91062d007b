#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("reply"), |data: &[u8]| {
    (lineside_fuzz::find("reply").run)(data);
});
