#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("fabric_packets"), |data: &[u8]| {
    (lineside_fuzz::find("fabric_packets").run)(data);
});
