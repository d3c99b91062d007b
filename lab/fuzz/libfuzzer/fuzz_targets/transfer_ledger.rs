#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("transfer_ledger"), |data: &[u8]| {
    (lineside_fuzz::find("transfer_ledger").run)(data);
});
