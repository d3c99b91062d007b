//! Runs every target over its seeds and over a fixed number of their mutations. The inputs are the same in each run.

use lineside_fuzz::{Mutator, TARGETS, find};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn short(name: &str) {
    let target = find(name);
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty());
    let run = |what: String, input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
            eprintln!("{name}: {what}, {} bytes: {input:02x?}", input.len());
            std::panic::resume_unwind(panic);
        }
    };
    for (number, seed) in seeds.iter().enumerate() {
        run(format!("seed {number}"), seed);
    }
    let mut mutations = Mutator::new(1, seeds);
    for number in 0..target.short {
        run(format!("mutation {number}"), &mutations.next_input());
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            short(stringify!($name));
        })*

        #[test]
        fn every_target_is_run_by_this_test_and_by_cargo_fuzz() {
            let here = [$(stringify!($name)),*];
            assert_eq!(here.to_vec(), TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/libfuzzer");
            let read = |path: String| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            let (manifest, table) = (read(format!("{root}/Cargo.toml")), read(format!("{root}/README.md")));
            assert_eq!(manifest.matches("[[bin]]").count(), here.len());
            for name in here {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} in fuzz/Cargo.toml");
                assert!(table.contains(&format!("| `{name}` |")), "{name} in fuzz/README.md");
                let file = read(format!("{root}/fuzz_targets/{name}.rs"));
                assert!(file.contains(&format!("lineside_fuzz::plant(\"{name}\")")), "{name}");
                assert!(file.contains(&format!("lineside_fuzz::find(\"{name}\")")), "{name}");
            }
        }
    };
}

targets! {
    frame xdp request reply block block_file store_files txid_index adopt config
    node_answer node_zmq node_url node_block_files
    hex console_answer console_request electrum_request
    ecdsa der sec1 hash journal merkle transfer_request transfer_entry transfer_ledger
    fabric_walk fabric_certificate fabric_block fabric_snapshot
    fabric_packets fabric_deliver
    hbase_response
    hybrid_request hybrid_datagram hybrid_ledger hybrid_proof hybrid_snapshot
    spv_proof spv_headers spv_header_file
}
