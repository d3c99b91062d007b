//! Types that say which requests of a service its fast path answers. The lists are generated from `spec/`.

use crate::{NATIVE_REPLY_BIT, native};

/// Requests of a service that its fast path answers, by datapath: `socket`, `xdp` or `rtl`. A datapath forwards to the
/// host what it does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPathList {
    /// Datapaths that answer requests in the paper's format.
    pub paper: &'static [&'static str],
    /// Native operations that some datapath answers.
    pub ops: &'static [FastPathOp],
}

/// Native operation that a fast path answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPathOp {
    /// Name of the operation.
    pub name: &'static str,
    /// Code of the operation.
    pub code: u8,
    /// Datapaths that answer the operation.
    pub datapaths: &'static [&'static str],
}

/// Kind of a request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnsweredOp {
    /// Request in the paper's format.
    Paper,
    /// Native request with this operation code.
    Native(u8),
}

impl AnsweredOp {
    /// Returns the kind of a request, from its payload and that of its reply. A native reply has the reply bit and the
    /// code of its request; all others are in the paper's format.
    pub fn of(request: &[u8], reply: &[u8]) -> Self {
        let is_native = native::is_native(request)
            && native::is_native(reply)
            && reply[3] & NATIVE_REPLY_BIT != 0
            && reply[3] & !NATIVE_REPLY_BIT == request[3];
        match is_native {
            true => Self::Native(request[3]),
            false => Self::Paper,
        }
    }
}

impl FastPathList {
    /// Returns true if the list says that the fast path on `datapath` answers this kind of request.
    pub fn answers(&self, datapath: &str, op: AnsweredOp) -> bool {
        self.of(datapath).any(|listed| listed == op)
    }

    /// Returns the kinds of requests that the fast path on `datapath` answers.
    pub fn of<'a>(&'a self, datapath: &'a str) -> impl Iterator<Item = AnsweredOp> + 'a {
        let paper = self.paper.contains(&datapath).then_some(AnsweredOp::Paper);
        let ops = self.ops.iter().filter(move |op| op.datapaths.contains(&datapath));
        paper.into_iter().chain(ops.map(|op| AnsweredOp::Native(op.code)))
    }

    /// Returns the name of a kind of request, for readers.
    pub fn name(&self, op: AnsweredOp) -> &'static str {
        let AnsweredOp::Native(code) = op else {
            return "paper format";
        };
        let listed = self.ops.iter().find(|listed| listed.code == code);
        listed.map_or("operation of the host", |listed| listed.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SPV_FAST_PATH, SPV_OP_PROOF, SPV_OP_ROOT, SPV_OP_ROOTS, Status};
    use zerocopy::IntoBytes;

    #[test]
    fn the_kind_of_a_request_is_that_of_its_reply() {
        let request = native::request_header(SPV_OP_ROOT, 1, 0);
        let reply = native::reply_header(&request, Status::Ok, 0);
        let of = AnsweredOp::of(request.as_bytes(), reply.as_bytes());
        assert_eq!(of, AnsweredOp::Native(SPV_OP_ROOT));
        // A TXID in the paper's format may begin like a native request, but its reply is a Merkle root.
        assert_eq!(AnsweredOp::of(request.as_bytes(), &[7; 32]), AnsweredOp::Paper);
    }

    #[test]
    fn the_list_of_spv_has_the_operations_of_each_datapath() {
        let (root, proof) = (AnsweredOp::Native(SPV_OP_ROOT), AnsweredOp::Native(SPV_OP_PROOF));
        assert!(SPV_FAST_PATH.answers("rtl", root) && SPV_FAST_PATH.answers("rtl", AnsweredOp::Paper));
        assert!(SPV_FAST_PATH.answers("xdp", proof) && !SPV_FAST_PATH.answers("rtl", proof));
        assert!(SPV_FAST_PATH.answers("rtl", AnsweredOp::Native(SPV_OP_ROOTS)));
        assert_eq!(SPV_FAST_PATH.of("rtl").count(), 3);
        assert_eq!(SPV_FAST_PATH.name(proof), "proof");
    }
}
