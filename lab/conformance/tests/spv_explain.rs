//! Tests of the steps that the model of `spv` records: with the recorded vectors, which are made from the documents and
//! not from the code, the last step must be the reason of the verdict.

use lineside_conformance::diff::Frames;
use lineside_conformance::steps;
use lineside_conformance::vectors::pcap::{endpoint, filled};
use lineside_conformance::vectors::{self, ExpectedVerdict, File};
use lineside_fastpath::{DropReason, FrameHandler, FrameVerdict, Steps, lease};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::Store;
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_spv_proof::Tree;
use lineside_wire::SPV_PORT;
use lineside_wire::trace::Rule;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns a store in the state of a vector file, with the Merkle trees of its blocks, and its writer.
fn filled_with_trees(file: &File) -> (Arc<Store>, StoreWriter) {
    let (store, mut writer) = filled(file).unwrap();
    for block in file.blocks.iter().filter(|block| block.tree) {
        let ticket = writer.admit(&BlockRef {
            hash: block.hash.0,
            root: block.root.0,
            height: block.height,
        });
        let txids: Vec<_> = block.txids().collect();
        let tree = Tree::new(&txids).expect("transactions");
        writer.fill_tree(ticket, &block.header.0, &tree);
    }
    (store, writer)
}

/// Returns the rules of which one must be the reason of a drop.
fn rules_of_drop(reason: &str) -> &'static [Rule] {
    match reason {
        "source_port" => &[Rule::SourcePort],
        "source_address" => &[Rule::SourceAddress, Rule::SourceMac],
        "reply_bit" => &[Rule::NoReplyBit],
        "not_a_request" => &[Rule::NotUnknownReply, Rule::NativeMagic],
        "paper_refused" => &[Rule::PaperFormat],
        other => panic!("no rule gives the reason {other}"),
    }
}

/// Returns the rules of which one must be the reason of a request that is forwarded and counted; without a counter, the
/// rules about frames.
fn rules_of_counter(counter: Option<&str>) -> &'static [Rule] {
    match counter {
        Some("misses") => &[
            Rule::KeyWord,
            Rule::Line,
            Rule::BlockGeneration,
            Rule::BlockUnchanged,
            Rule::Tree,
        ],
        Some("not_leased") => &[Rule::EpochEven, Rule::Lease, Rule::EpochSame],
        Some("forwarded_native") => &[
            Rule::NativeVersion,
            Rule::NativeLength,
            Rule::Body,
            Rule::Operation,
            Rule::ItemPadding,
            Rule::PathFits,
            Rule::ReplyFits,
        ],
        Some(other) => panic!("no rule gives the counter {other}"),
        None => steps::FRAME_RULES,
    }
}

#[test]
fn the_last_step_is_the_reason_of_each_recorded_verdict() {
    let mut seen = BTreeSet::new();
    for file in vectors::load("spv").unwrap() {
        let (store, _writer) = filled_with_trees(&file);
        let (endpoint, fastpath) = (endpoint(&file).unwrap(), SpvFastPath::new(Arc::clone(&store)));
        let handler = FrameHandler {
            endpoint: &endpoint,
            port: SPV_PORT,
            fastpath: &fastpath,
        };
        for vector in &file.vectors {
            let what = format!("{}: {}", file.name, vector.what);
            let (mut left, mut steps) = (vector.frame(), Steps::default());
            let verdict = handler.explain(lease::now_ns(), &mut left, &mut steps);
            let rule = steps::reason(&steps, verdict).unwrap();
            seen.extend(rule.map(Rule::name));
            match &vector.fastpath {
                ExpectedVerdict::Reply => {
                    assert_eq!(verdict, FrameVerdict::Transmit, "{what}");
                    assert_eq!(Some(left), vector.reply_frame(), "{what}");
                }
                ExpectedVerdict::Forward => {
                    assert_eq!((verdict, left), (FrameVerdict::Pass, vector.frame()), "{what}");
                    let rule = rule.expect("a reason");
                    let expected = rules_of_counter(vector.counts.as_deref());
                    assert!(expected.contains(&rule), "{what}: {}", rule.name());
                }
                ExpectedVerdict::Drop(reason) => {
                    assert!(matches!(verdict, FrameVerdict::Drop(found) if found.name() == reason));
                    let rule = rule.expect("a reason");
                    assert!(rules_of_drop(reason).contains(&rule), "{what}: {}", rule.name());
                }
            }
        }
    }
    // The vectors reach most rules.
    assert!(seen.len() >= 20, "{seen:?}");
}

#[test]
fn recorded_steps_change_no_verdict_and_no_byte() {
    let file = vectors::load("spv").unwrap().into_iter();
    let file = file.into_iter().find(|file| file.name == "payloads").unwrap();
    let (store, _writer) = filled(&file).unwrap();
    let endpoint = endpoint(&file).unwrap();
    let fastpath = SpvFastPath::new(store);
    let handler = FrameHandler {
        endpoint: &endpoint,
        port: SPV_PORT,
        fastpath: &fastpath,
    };
    let payloads = file
        .vectors
        .iter()
        .map(|vector| vector.request.0.clone())
        .collect();
    let mut frames = Frames::new(7, &endpoint, SPV_PORT, payloads);
    let mut verdicts = [0; 3];
    for _ in 0..20_000 {
        let frame = frames.next_frame();
        let (mut plain, mut explained, mut steps) = (frame.clone(), frame, Steps::default());
        let verdict = handler.answer(lease::now_ns(), &mut plain);
        assert_eq!(
            handler.explain(lease::now_ns(), &mut explained, &mut steps),
            verdict
        );
        assert_eq!(plain, explained);
        let rule = steps::reason(&steps, verdict).unwrap();
        match verdict {
            FrameVerdict::Transmit => verdicts[0] += 1,
            FrameVerdict::Pass => verdicts[1] += 1,
            FrameVerdict::Drop(reason) => {
                verdicts[2] += 1;
                let expected = rules_of_drop(DropReason::name(reason));
                assert!(rule.is_some_and(|rule| expected.contains(&rule)));
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 500), "{verdicts:?}");
}
