//! Tests of the captures of the vectors: what is written is read back, and is what the model of the RTL gives.

use lineside_capture::{Reader, Record};
use lineside_conformance::rtl::RtlModel;
use lineside_conformance::spv::Spv;
use lineside_conformance::vectors::pcap::{
    COMMANDS, EXPECTED, EXPECTED_HOST, PACKETS_IN, Written, endpoint, filled, folder_name, write,
};
use lineside_conformance::vectors::{File, load};
use lineside_fastpath::{FrameHandler, FrameVerdict, lease};
use lineside_spv::fastpath::SpvFastPath;
use lineside_wire::SPV_PORT;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let (mut frames, mut record) = (Vec::new(), Record::default());
    while reader.next(&mut record).unwrap() {
        assert_eq!(record.original_bytes as usize, record.frame.len());
        frames.push(record.frame.clone());
    }
    frames
}

/// Returns the number of replies.
fn check_file(folder: &Path, file: &File) -> usize {
    let (store, _writer) = filled(file).unwrap();
    let endpoint = endpoint(file).unwrap();
    let model = RtlModel::<Spv>::new(SpvFastPath::new(Arc::clone(&store)));
    let line = FrameHandler {
        endpoint: &endpoint,
        port: SPV_PORT,
        fastpath: &model,
    };
    let mut replies = 0;
    for (number, vector) in file.vectors.iter().enumerate() {
        let folder = folder.join(folder_name(number, vector));
        let request = frames(&folder.join(PACKETS_IN));
        assert_eq!(request, [vector.frame()]);
        let mut left = request[0].clone();
        let (network, host) = match line.answer(lease::now_ns(), &mut left) {
            FrameVerdict::Transmit => (vec![left], vec![]),
            FrameVerdict::Pass => (vec![], request),
            FrameVerdict::Drop(_) => (vec![], vec![]),
        };
        assert_eq!(frames(&folder.join(EXPECTED)), network, "{}", folder.display());
        assert_eq!(frames(&folder.join(EXPECTED_HOST)), host, "{}", folder.display());
        replies += network.len();
    }
    replies
}

#[test]
fn captures_of_the_vectors_are_what_the_model_of_the_rtl_gives() {
    let out = tempfile::tempdir().unwrap();
    let written = write(out.path()).unwrap();
    let files = load("spv").unwrap();
    let mut expected = Written {
        files: files.len(),
        ..Written::default()
    };
    for file in &files {
        let folder = out.path().join("spv").join(&file.name);
        expected.replies += check_file(&folder, file);
        expected.vectors += file.vectors.len();
        // The commands have 64 bytes: 1,024 lines, 16 blocks of two commands, and those of the interface.
        let commands = fs::read(folder.join(COMMANDS)).unwrap();
        assert!(commands.len() > 64 * (1024 + 2 * 16), "{}", commands.len());
        assert_eq!(commands.len() % 64, 0);
    }
    assert_eq!(written, expected);
    assert!(written.replies > 20 && written.replies < written.vectors);
}

#[test]
fn a_second_run_writes_the_same_bytes() {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    write(first.path()).unwrap();
    write(second.path()).unwrap();
    for file in load("spv").unwrap() {
        let path = Path::new("spv").join(&file.name).join(COMMANDS);
        let read = |out: &tempfile::TempDir| fs::read(out.path().join(&path)).unwrap();
        assert!(read(&first) == read(&second), "{}", path.display());
    }
}
