#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("transfer_entry"), |data: &[u8]| {
    (lineside_fuzz::find("transfer_entry").run)(data);
});
