#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("store_files"), |data: &[u8]| {
    (lineside_fuzz::find("store_files").run)(data);
});
