//! Tests of the captures of the vectors: what is written is read back, and is what the model of the RTL gives. With the
//! feature `rtl`, the simulated NIC gets the commands and the frames of `transfer` from the files, as the test suite of
//! a shell does.

use lineside_capture::{Reader, Record};
use lineside_conformance::rtl::RtlModel;
use lineside_conformance::spv::Spv;
use lineside_conformance::vectors::ExpectedVerdict;
use lineside_conformance::vectors::pcap::{
    COMMANDS, EXPECTED, EXPECTED_HOST, PACKETS_IN, Written, endpoint, filled, folder_name, transfer, write,
};
use lineside_conformance::vectors::transfer::{Vector, load as load_transfer};
use lineside_conformance::vectors::{File, load};
use lineside_fastpath::{FrameHandler, FrameVerdict, lease};
use lineside_spv::fastpath::SpvFastPath;
use lineside_wire::SPV_PORT;
use std::fs;
use std::path::{Path, PathBuf};
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
        let folder = folder.join(folder_name(number, &vector.what));
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
    for out in [first.path(), second.path()] {
        write(out).unwrap();
        transfer::write(out).unwrap();
    }
    let mut compared = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(first.path().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
                continue;
            }
            let read = |out: &tempfile::TempDir| fs::read(out.path().join(&path)).unwrap();
            assert!(read(&first) == read(&second), "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared} files");
}

/// Files of `transfer` as they were written, with the folder and the vectors of each.
fn written_transfer(out: &Path) -> Vec<(PathBuf, Vec<Vector>)> {
    let files = load_transfer().unwrap();
    let files: Vec<_> = files.into_iter().filter(|file| file.state.drains).collect();
    let written = transfer::write(out).unwrap();
    let vectors = files.iter().map(|file| file.vectors.len()).sum();
    assert_eq!((written.files, written.vectors), (files.len(), vectors));
    assert!(
        written.replies > 50 && written.replies < written.vectors,
        "{written:?}"
    );
    let folder = |name: &str| out.join("transfer").join(name);
    files
        .into_iter()
        .map(|file| (folder(&file.name), file.vectors))
        .collect()
}

#[test]
fn captures_of_transfer_have_the_frames_of_the_vectors() {
    let out = tempfile::tempdir().unwrap();
    let (mut replies, mut host_commands) = (0, 0);
    for (folder, vectors) in written_transfer(out.path()) {
        assert!(fs::read(folder.join(COMMANDS)).unwrap().len() > 64 * 4096);
        for (number, vector) in vectors.iter().enumerate() {
            let folder = folder.join(folder_name(number, &vector.what));
            let path = folder.display();
            let request = frames(&folder.join(PACKETS_IN));
            // A request may have bytes that the host chose in an earlier reply.
            assert_eq!(request[0].len(), vector.frame(&vector.request.0).len(), "{path}");
            let (network, host) = (
                frames(&folder.join(EXPECTED)),
                frames(&folder.join(EXPECTED_HOST)),
            );
            match vector.fastpath {
                ExpectedVerdict::Reply if host.is_empty() => {
                    assert_eq!(network, [vector.reply_frame().unwrap()], "{path}");
                }
                ExpectedVerdict::Reply | ExpectedVerdict::Forward => {
                    assert_eq!((network.len(), host), (0, request), "{path}");
                }
                ExpectedVerdict::Drop(_) => assert_eq!((network.len(), host.len()), (0, 0), "{path}"),
            }
            replies += network_count(&folder);
            host_commands += fs::read(folder.join(COMMANDS)).unwrap().len() / 64;
        }
    }
    assert!(replies > 50, "{replies} replies");
    assert!(host_commands > 100, "{host_commands} commands of the host");
}

fn network_count(folder: &Path) -> usize {
    frames(&folder.join(EXPECTED)).len()
}

#[cfg(feature = "rtl")]
mod rtl {
    use super::*;
    use lineside_rtl::sim::{Pauses, Simulation};
    use lineside_rtl::{Command, NicDesign, NicVerdict};

    fn commands(folder: &Path) -> Vec<Command> {
        let bytes = fs::read(folder.join(COMMANDS)).unwrap();
        let commands = bytes
            .chunks_exact(64)
            .map(|bytes| Command(bytes.try_into().unwrap()));
        commands.collect()
    }

    /// Runs a file. Returns the first folder whose frames are not those that leave the NIC.
    fn run(folder: &Path, vectors: &[Vector], with_commands: bool) -> Result<(), String> {
        let mut nic = Simulation::new(NicDesign::Transfer).unwrap();
        nic.set_now(1);
        nic.execute(&commands(folder)).unwrap();
        for (number, vector) in vectors.iter().enumerate() {
            let folder = folder.join(folder_name(number, &vector.what));
            // The first vector gives the lease.
            if with_commands || number == 0 {
                nic.execute(&commands(&folder)).unwrap();
            }
            let (left, _) = nic
                .run(&frames(&folder.join(PACKETS_IN)), Pauses::default())
                .unwrap();
            let (mut network, mut host) = (Vec::new(), Vec::new());
            for left in left {
                match left.verdict {
                    NicVerdict::Reply => network.push(left.frame),
                    NicVerdict::Forward => host.push(left.frame),
                    NicVerdict::Drop => {}
                }
            }
            nic.take_records();
            nic.take_responses();
            let expected = (
                frames(&folder.join(EXPECTED)),
                frames(&folder.join(EXPECTED_HOST)),
            );
            if (network, host) != expected {
                return Err(folder.display().to_string());
            }
        }
        Ok(())
    }

    #[test]
    fn the_simulated_nic_gives_the_captures_of_transfer() {
        let out = tempfile::tempdir().unwrap();
        let files = written_transfer(out.path());
        for (folder, vectors) in &files {
            run(folder, vectors, true).unwrap_or_else(|folder| panic!("{folder}: other frames left the NIC"));
        }
        // Without the commands of the host, the frames of some vectors must differ.
        let differ = files
            .iter()
            .filter(|(folder, vectors)| run(folder, vectors, false).is_err());
        assert!(differ.count() > 0);
    }
}
