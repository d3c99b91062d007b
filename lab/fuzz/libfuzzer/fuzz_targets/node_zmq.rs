#![no_main]
libfuzzer_sys::fuzz_target!(init: lineside_fuzz::plant("node_zmq"), |data: &[u8]| {
    (lineside_fuzz::find("node_zmq").run)(data);
});
