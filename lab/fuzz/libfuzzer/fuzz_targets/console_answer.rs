#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("console_answer"), |data: &[u8]| {
    (lineside_fuzz::find("console_answer").run)(data);
});
