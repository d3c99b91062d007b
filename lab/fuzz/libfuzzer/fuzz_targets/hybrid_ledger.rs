#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("hybrid_ledger"), |data: &[u8]| {
    (lineside_fuzz::find("hybrid_ledger").run)(data);
});
