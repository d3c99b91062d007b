//! Test of the steps that the model records for the vectors. The expected steps come from the counters and replies in
//! the vectors.

use super::*;
use lineside_conformance::steps;
use lineside_fastpath::{FrameHandler, Steps};
use lineside_wire::trace::Rule;
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, Operation, Status, TRANSFER_OP_EXECUTE,
    TRANSFER_OP_REFER, TRANSFER_PAPER_BYTES_MAX, TransferCode as Code,
};
use std::collections::BTreeSet;
use zerocopy::FromBytes;

/// Model that keeps the steps and the reply of its last frame.
struct Explaining {
    fastpath: TransferFastPath,
    endpoint: Endpoint,
    drops: [u64; DropReason::ALL.len()],
    steps: Steps,
    reply: Option<Vec<u8>>,
    reason: Option<Rule>,
}

impl Datapath for Explaining {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let handler = FrameHandler {
            endpoint: &self.endpoint,
            port: TRANSFER_PORT,
            fastpath: &self.fastpath,
        };
        let mut left = frame.to_vec();
        self.steps = Steps::default();
        let verdict = handler.explain(lease::now_ns(), &mut left, &mut self.steps);
        self.reason = steps::reason(&self.steps, verdict).unwrap();
        self.reply = None;
        match verdict {
            FrameVerdict::Transmit => {
                let payload = frame::parse(&left).expect("a datagram").payload();
                self.reply = Some(left[payload].to_vec());
            }
            FrameVerdict::Drop(reason) => self.drops[reason as usize] += 1,
            FrameVerdict::Pass => {}
        }
        Ok((verdict, left))
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(self.drops)
    }
}

impl Counted for Explaining {
    fn counters(&mut self) -> Result<Vec<u64>, XdpError> {
        Ok(self.fastpath.counters().to_vec())
    }
}

/// Returns the rules of which one must be the reason why a frame was not answered.
fn reasons(vector: &Vector) -> &'static [Rule] {
    match (&vector.fastpath, vector.counts.first().map(String::as_str)) {
        (ExpectedVerdict::Reply, _) => &[],
        (ExpectedVerdict::Drop(reason), _) => match reason.as_str() {
            "source_port" => &[Rule::SourcePort],
            "source_address" => &[Rule::SourceAddress, Rule::SourceMac],
            "reply_bit" => &[Rule::NoReplyBit],
            "not_a_request" => &[Rule::NativeMagic],
            "paper_refused" => &[Rule::PaperFormat],
            other => panic!("no rule gives the reason {other}"),
        },
        (ExpectedVerdict::Forward, Some("not_leased")) => &[Rule::Lease],
        (ExpectedVerdict::Forward, Some("forwarded")) => &[
            Rule::NativeVersion,
            Rule::NativeLength,
            Rule::Body,
            Rule::Operation,
            Rule::Executes,
            Rule::Unsigned,
            Rule::Plain,
            Rule::AccountExists,
            Rule::SessionUnclaimed,
            Rule::AccountsUnclaimed,
        ],
        (ExpectedVerdict::Forward, Some(other)) => panic!("no rule gives the counter {other}"),
        (ExpectedVerdict::Forward, None) => steps::FRAME_RULES,
    }
}

/// Returns the status of a reply, and the code of its last operation or account.
fn outcome(reply: &[u8]) -> (Status, Code) {
    let code = |number: u16| Code::from_code(number).expect("a code");
    if reply.len() <= TRANSFER_PAPER_BYTES_MAX {
        let amount = u32::from_be_bytes(reply[16..20].try_into().unwrap());
        let is_refused = reply[0] & 0x80 != 0;
        return (
            Status::Ok,
            if is_refused {
                code(amount as u16)
            } else {
                Code::Done
            },
        );
    }
    let (header, body) = NativeHeader::ref_from_prefix(reply).unwrap();
    let status = Status::from_code(header.status.get()).expect("a status");
    let last = match header.op & !NATIVE_REPLY_BIT {
        TRANSFER_OP_EXECUTE => {
            let operations = <[Operation]>::ref_from_bytes(&body[size_of::<ExecuteHead>()..]).unwrap();
            operations.last().expect("an operation").code
        }
        TRANSFER_OP_REFER => {
            let (_, items) = <[BalanceItem]>::ref_from_suffix_with_elems(body, 1).unwrap();
            items[0].code
        }
        other => panic!("the fast path does not answer operation {other}"),
    };
    (status, code(last.get()))
}

/// Returns the last decisions that lead to this outcome, with their results.
fn decisions((status, code): (Status, Code)) -> Vec<(Rule, bool)> {
    // A repetition gets the first reply, whatever it was.
    let mut found = vec![(Rule::NewTransactionId, false), (Rule::SameOperations, true)];
    found.extend_from_slice(match (status, code) {
        (Status::NoSession, _) => &[(Rule::SessionOpen, false)],
        (Status::Sequence, _) => &[(Rule::NextSequence, false)],
        (Status::Reused, _) => return vec![(Rule::SameOperations, false)],
        (Status::Busy, _) => &[(Rule::RingRoom, false)],
        (_, Code::Done) => &[
            (Rule::Done, true),
            (Rule::CellFree, true),
            (Rule::AccountRead, true),
            (Rule::BalanceFits, true),
        ],
        (_, Code::UnknownAccount) => &[(Rule::AccountExists, false), (Rule::Done, false)],
        (_, Code::SameAccount) => &[(Rule::OtherAccount, false), (Rule::Done, false)],
        (_, Code::AccountExists | Code::InsufficientFunds | Code::Overflow | Code::Frozen) => {
            &[(Rule::Done, false), (Rule::BalanceFits, false)]
        }
        (_, Code::StoreFull) => &[(Rule::CellFree, false)],
        (_, Code::StaleId | Code::IdReused) => return vec![(Rule::NewTransactionId, false)],
        (_, Code::Busy) => &[(Rule::RingRoom, false), (Rule::RefusalCredit, false)],
        (_, Code::BadCommand) => &[(Rule::CommandKnown, false), (Rule::WellFormed, false)],
        (_, Code::Unauthorised) => &[(Rule::Permitted, false), (Rule::Unsigned, false)],
        (_, Code::LinkedFailed | Code::UnknownPending | Code::PendingExists) => &[],
    });
    found
}

#[test]
fn the_steps_are_the_reasons_of_the_recorded_verdicts_and_codes() {
    let (mut seen, mut answered) = (BTreeSet::new(), 0);
    for file in files() {
        let store = Arc::new(Store::anonymous(&geometry(&file)).expect("memory"));
        let mut datapath = Explaining {
            fastpath: TransferFastPath::new(Arc::clone(&store)),
            endpoint: endpoint(&file),
            drops: Default::default(),
            steps: Steps::default(),
            reply: None,
            reason: None,
        };
        let mut behind = VectorHost::new(&file, &store, false);
        let mut chosen = Vec::new();
        for vector in &file.vectors {
            if file.state.lease == Lease::Over {
                lease::end(&store.control().lease_until_ns);
            }
            let what = format!("{}.toml: {:?}", file.name, vector.what);
            hold_one(vector, &mut datapath, &mut behind, &mut chosen)
                .unwrap_or_else(|fault| panic!("{what}: {fault}"));
            if file.state.drains {
                behind.host.drain();
            }
            let steps = datapath.steps.as_slice();
            seen.extend(steps.iter().map(|step| (step.rule.name(), step.holds)));
            let expected = reasons(vector);
            assert_eq!(
                datapath.reason.is_some(),
                !expected.is_empty(),
                "{what}: {steps:#?}"
            );
            assert!(
                datapath.reason.is_none_or(|rule| expected.contains(&rule)),
                "{what}: {steps:#?}"
            );
            let Some(reply) = &datapath.reply else { continue };
            answered += 1;
            // These steps follow the decision: it is recorded, and its reply is written.
            let follows = |rule, holds| {
                matches!(
                    (rule, holds),
                    (Rule::ReplyFits | Rule::ReplyLength | Rule::RefusalCredit, true)
                )
            };
            let last = steps
                .iter()
                .rfind(|step| !follows(step.rule, step.holds))
                .expect("a decision");
            let outcome = outcome(reply);
            assert!(
                decisions(outcome).contains(&(last.rule, last.holds)),
                "{what}: {outcome:?}, but the last decision is {last:?}"
            );
        }
    }
    assert!(answered > 100, "{answered}");
    // The vectors reach each rule of the service with both results. They never have two requests at once, a host that
    // has claimed an account, or used-up credit, so these rules always hold.
    let service = Rule::ALL.iter().skip_while(|rule| **rule != Rule::CommandKnown);
    for rule in service {
        let always_holds = matches!(
            rule,
            Rule::Unlocked
                | Rule::SessionUnclaimed
                | Rule::AccountRead
                | Rule::AccountsUnclaimed
                | Rule::RefusalCredit
        );
        for holds in [true, false] {
            let is_seen = seen.contains(&(rule.name(), holds));
            assert!(is_seen || (always_holds && !holds), "{} {holds}", rule.name());
        }
    }
}
