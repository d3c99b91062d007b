#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("xdp"), |data: &[u8]| {
    (lineside_fuzz::find("xdp").run)(data);
});
