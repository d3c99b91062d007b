#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("node_answer"), |data: &[u8]| {
    (lineside_fuzz::find("node_answer").run)(data);
});
