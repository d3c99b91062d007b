//! stub
use crate::bpf::Generator;
use crate::client::{ClosedLoop, Tally};
use crate::error::Result;
use crate::workload::Workload;
/// stub
pub fn run(_: &Generator, _: u32, workload: &Workload, plan: ClosedLoop) -> Result<Tally> {
    crate::client::sendmmsg(workload, plan)
}
