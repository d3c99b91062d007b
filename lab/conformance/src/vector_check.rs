//! Comparison of a datapath that processes whole frames with a recorded vector: its verdict, the frame after the run,
//! and the drops and counters that increased.

use crate::frames::{Datapath, FrameDatapath, FrameService};
use crate::vectors::{ExpectedVerdict, Vector};
use lineside_fastpath::{DropReason, FrameVerdict};
use std::fmt::Debug;

/// Runs the frame of `vector` through `datapath`, and compares the outcome with the vector. `names` are the names of
/// the service's counters.
///
/// # Errors
/// Returns the difference from the vector, or an error of the kernel.
pub fn check_vector<S: FrameService>(
    vector: &Vector,
    datapath: &mut FrameDatapath<S>,
    names: &[&str],
) -> Result<(), String> {
    let text = |error: lineside_xdp::XdpError| error.to_string();
    let frame = vector.frame();
    let drops = datapath.drops().map_err(text)?;
    let counters = datapath.counters().map_err(text)?;
    let (verdict, left) = datapath.run(&frame).map_err(text)?;
    let dropped = risen(
        &drops,
        &datapath.drops().map_err(text)?,
        &DropReason::ALL.map(DropReason::name),
    );
    let counted = risen(&counters, &datapath.counters().map_err(text)?, names);
    let (said, reason, expected) = match &vector.fastpath {
        ExpectedVerdict::Reply => ("reply", None, vector.reply_frame()),
        ExpectedVerdict::Forward => ("forward", None, Some(frame)),
        ExpectedVerdict::Drop(reason) => ("drop", Some(reason), None),
    };
    let found = match verdict {
        FrameVerdict::Transmit => "reply",
        FrameVerdict::Pass => "forward",
        FrameVerdict::Drop(_) => "drop",
    };
    let list = |name: Option<&String>| name.into_iter().cloned().collect::<Vec<_>>();
    same("verdict", said, found)
        .and_then(|()| same("counted drops", list(reason), dropped))
        .and_then(|()| same("counters", list(vector.counts.as_ref()), counted))
        .and_then(|()| expected.map_or(Ok(()), |expected| same("frame", expected, left)))
        .map_err(|fault| format!("{:?}: {fault}", vector.what))
}

/// Returns the names of the counters that are higher in `after` than in `before`, each as often as it increased.
fn risen(before: &[u64], after: &[u64], names: &[&str]) -> Vec<String> {
    let rises = before.iter().zip(after).zip(names);
    rises
        .flat_map(|((before, after), name)| (*before..*after).map(|_| String::from(*name)))
        .collect()
}

fn same<T: PartialEq + Debug>(what: &str, expected: T, found: T) -> Result<(), String> {
    match expected == found {
        true => Ok(()),
        false => Err(format!(
            "{what}\n  expected {expected:02x?}\n  found    {found:02x?}"
        )),
    }
}
