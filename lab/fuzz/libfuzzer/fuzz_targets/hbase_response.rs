#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("hbase_response"), |data: &[u8]| {
    (lineside_fuzz::find("hbase_response").run)(data);
});
