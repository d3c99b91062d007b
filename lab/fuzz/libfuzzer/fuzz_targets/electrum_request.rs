#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("electrum_request"), |data: &[u8]| {
    (lineside_fuzz::find("electrum_request").run)(data);
});
