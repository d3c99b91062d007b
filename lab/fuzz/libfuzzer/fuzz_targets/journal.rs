#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("journal"), |data: &[u8]| {
    (lineside_fuzz::find("journal").run)(data);
});
