#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("hybrid_snapshot"), |data: &[u8]| {
    (lineside_fuzz::find("hybrid_snapshot").run)(data);
});
