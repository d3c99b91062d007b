//! State of the connection to a node: for status, metrics and `/healthz`.

use lineside_util::counted;
use std::time::Instant;

/// State of the connection to a node, as the status and `/healthz` show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Address of the node, without secrets.
    pub node: String,
    /// Height of the node's best block at the last request.
    pub node_height: Option<u32>,
    /// True while the host's chain is equal to the node's.
    pub at_tip: bool,
    /// Time since when the node has answered without interruption; `None` if it does not answer now.
    pub connected_since: Option<Instant>,
    /// True while the node answers but has less work than the host; `away` has the reason.
    pub has_less_work: bool,
    /// Reason why the node is not followed now, and the time when this began; `None` if it is followed.
    pub away: Option<(String, Instant)>,
    /// Reason why the node's data is refused: it is wrong, or from another network.
    pub refused: Option<String>,
    /// Reason why the chain store cannot accept blocks, for example a full disk.
    pub store_failed: Option<String>,
    /// True if the thread that follows the node has ended because of a bug in this program.
    pub has_ended: bool,
    /// Number of reorganisations since the start.
    pub reorganisations: u64,
    /// Number of blocks that the deepest reorganisation since the start replaced.
    pub deepest: u32,
    /// Number of times that the node answered again after it had been unreachable.
    pub reconnects: u64,
    /// Number of refused blocks; a block that is offered repeatedly counts once.
    pub refused_blocks: u64,
}

/// Returns the number of blocks by which the host's tip at `height` is behind the node's best block.
pub fn blocks_behind(node_height: u32, height: Option<u32>) -> u64 {
    let blocks = height.map_or(0, |height| u64::from(height) + 1);
    (u64::from(node_height) + 1).saturating_sub(blocks)
}

impl NodeState {
    /// Returns true if the node answers and its blocks are accepted.
    pub fn is_up(&self) -> bool {
        !self.has_ended && self.away.is_none() && self.refused.is_none() && self.store_failed.is_none()
    }

    /// Records that the node has answered and its data was accepted.
    pub(super) fn answered(&mut self, at_tip: bool) {
        if let Some((_, since)) = self.away.take() {
            self.reconnects += 1;
            let seconds = since.elapsed().as_secs();
            tracing::info!(node = self.node, seconds, "the node is followed again");
        }
        self.connected_since.get_or_insert_with(Instant::now);
        (self.at_tip, self.has_less_work, self.refused) = (at_tip, false, None);
    }

    /// Records that the chain store has written the accepted blocks.
    pub(super) fn stored(&mut self) {
        if self.store_failed.take().is_some() {
            tracing::info!(
                node = self.node,
                "the chain store accepts the node's blocks again"
            );
        }
    }

    /// Returns one line for the status display: the node's address, the state of the connection and its duration, and
    /// the number of missing blocks. `height` is that of the host's tip.
    pub fn summary(&self, height: Option<u32>) -> String {
        let for_s = |since: Option<Instant>| since.map_or(0, |since| since.elapsed().as_secs());
        let state = if self.has_ended {
            "not followed, because of a fault of this program".into()
        } else if self.store_failed.is_some() {
            "not followed, because the chain store cannot store its blocks".into()
        } else if self.refused.is_some() {
            "not followed, because one of its blocks was refused".into()
        } else if let Some((_, since)) = &self.away {
            let seconds = for_s(Some(*since));
            match self.has_less_work {
                true => format!("with less work than the chain store for {seconds} s"),
                false => format!("not followed for {seconds} s"),
            }
        } else if self.connected_since.is_none() {
            "not contacted yet".into()
        } else {
            format!("connected for {} s", for_s(self.connected_since))
        };
        let of_height = match self.node_height {
            None => String::new(),
            Some(node) => match blocks_behind(node, height) {
                0 => format!(", height {node}"),
                blocks => format!(", height {node}, {} behind", counted(blocks, "block")),
            },
        };
        format!("node    {}, {state}{of_height}", self.node)
    }

    /// Returns the messages for `/healthz`: problems, then warnings. `height` is that of the host's tip.
    pub fn health(&self, height: Option<u32>) -> (Vec<String>, Vec<String>) {
        let tip = height.map_or_else(
            || "no block is served".to_owned(),
            |height| format!("the served tip has height {height}"),
        );
        let lag = match self.node_height.map(|node| blocks_behind(node, height)) {
            Some(blocks @ 1..) => format!(", {} behind the node", counted(blocks, "block")),
            _ => String::new(),
        };
        let mut problems = Vec::new();
        let mut warnings = Vec::new();
        if self.has_ended {
            problems.push(format!(
                "spv: {} is not followed any more, because of a fault of this program (see the log); {tip}; \
                 restart the server",
                self.node
            ));
        } else if let Some(why) = &self.store_failed {
            problems.push(format!(
                "spv: the chain store cannot store the blocks of {}: {why}; {tip}{lag}",
                self.node
            ));
        } else if let Some(why) = &self.refused {
            problems.push(format!(
                "spv: a block of {} was refused: {why}; the node is not followed",
                self.node
            ));
        } else {
            // A server without any block cannot answer requests, so this is a problem and not a warning.
            let list = match height {
                Some(_) => &mut warnings,
                None => &mut problems,
            };
            if let Some((why, since)) = &self.away {
                let seconds = since.elapsed().as_secs();
                list.push(format!(
                    "spv: {} has not been followed for {seconds} s: {why}; {tip}{lag}",
                    self.node
                ));
            } else if !self.at_tip {
                list.push(format!("spv: catching up with {}; {tip}{lag}", self.node));
            }
        }
        (problems, warnings)
    }
}
