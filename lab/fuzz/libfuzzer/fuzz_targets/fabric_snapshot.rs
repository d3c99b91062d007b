#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("fabric_snapshot"), |data: &[u8]| {
    (lineside_fuzz::find("fabric_snapshot").run)(data);
});
