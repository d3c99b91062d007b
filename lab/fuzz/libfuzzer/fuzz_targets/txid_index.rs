#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("txid_index"), |data: &[u8]| {
    (lineside_fuzz::find("txid_index").run)(data);
});
