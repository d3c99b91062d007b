#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("node_url"), |data: &[u8]| {
    (lineside_fuzz::find("node_url").run)(data);
});
