//! State of the connection to a node: for the status, for people, and for `/healthz`.

use std::time::Instant;

/// State of the connection to a node, for status and health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Address of the node, without secrets.
    pub node: String,
    /// Height of the node's best block when it was last asked.
    pub node_height: Option<u32>,
    /// True while the host's chain is the node's.
    pub at_tip: bool,
    /// Time since which the node has answered without a break.
    pub connected_since: Option<Instant>,
    /// True while the node is asked and answers, and has less work than the host: then `away` has the reason.
    pub has_less_work: bool,
    /// Reason why the node is not followed now, and since when.
    pub away: Option<(String, Instant)>,
    /// Reason why what the node gives is not served: a lie, or another network.
    pub refused: Option<String>,
    /// Reason why the host's chain cannot take blocks, such as a full disk.
    pub store_failed: Option<String>,
    /// True once the thread that follows the node has ended by a fault of this program.
    pub has_ended: bool,
    /// Reorganisations since the start, and blocks of the longest of them.
    pub reorganisations: u64,
    /// Blocks of the longest reorganisation since the start.
    pub deepest: u32,
    /// Times that the node answered again after it had been away.
    pub reconnects: u64,
    /// Blocks of the node that were refused; one that is offered again and again counts once.
    pub refused_blocks: u64,
}

/// Returns the number of blocks by which `height`, that of the host's tip, is below the node's best block.
pub fn blocks_behind(node_height: u32, height: Option<u32>) -> u64 {
    let blocks = height.map_or(0, |height| u64::from(height) + 1);
    (u64::from(node_height) + 1).saturating_sub(blocks)
}

impl NodeState {
    /// Returns true while the node answers and what it gives is served.
    pub fn is_up(&self) -> bool {
        !self.has_ended && self.away.is_none() && self.refused.is_none() && self.store_failed.is_none()
    }

    /// The node has answered, and what it gave was taken.
    pub(super) fn answered(&mut self, at_tip: bool) {
        if let Some((_, since)) = self.away.take() {
            self.reconnects += 1;
            let seconds = since.elapsed().as_secs();
            tracing::info!(node = self.node, seconds, "the node is followed again");
        }
        self.connected_since.get_or_insert_with(Instant::now);
        (self.at_tip, self.has_less_work, self.refused) = (at_tip, false, None);
    }

    /// The chain store has made durable what it took.
    pub(super) fn stored(&mut self) {
        if self.store_failed.take().is_some() {
            tracing::info!(node = self.node, "the chain store takes the node's blocks again");
        }
    }

    /// Returns a line for people: the node's address, since when it is followed or not, and how far the chain is
    /// behind. `height` is that of the host's tip.
    pub fn summary(&self, height: Option<u32>) -> String {
        let for_s = |since: Option<Instant>| since.map_or(0, |since| since.elapsed().as_secs());
        let state = if self.has_ended {
            "not followed, because of a fault of this program".into()
        } else if self.store_failed.is_some() {
            "not followed, because the chain store cannot take its blocks".into()
        } else if self.refused.is_some() {
            "not followed, because what it gives is refused".into()
        } else if let Some((_, since)) = &self.away {
            let seconds = for_s(Some(*since));
            match self.has_less_work {
                true => format!("with less work than the chain store for {seconds} s"),
                false => format!("away for {seconds} s"),
            }
        } else if self.connected_since.is_none() {
            "not asked yet".into()
        } else {
            format!("connected for {} s", for_s(self.connected_since))
        };
        let of_height = match self.node_height {
            None => String::new(),
            Some(node) => match blocks_behind(node, height) {
                0 => format!(", height {node}"),
                1 => format!(", height {node}, 1 block behind"),
                blocks => format!(", height {node}, {blocks} blocks behind"),
            },
        };
        format!("node    {}, {state}{of_height}", self.node)
    }

    /// Returns the sentences for `/healthz`: problems, then warnings. `height` is that of the host's tip.
    pub fn health(&self, height: Option<u32>) -> (Vec<String>, Vec<String>) {
        let tip = height.map_or_else(|| "no block".to_owned(), |height| format!("height {height}"));
        let behind = match self.node_height.map(|node| blocks_behind(node, height)) {
            Some(blocks @ 1..) => format!(", {blocks} blocks behind the node"),
            _ => String::new(),
        };
        let mut problems = Vec::new();
        let mut warnings = Vec::new();
        if self.has_ended {
            problems.push(format!(
                "spv: {} is not followed any more, because of a fault of this program, which the log has; answers are \
                 those of {tip}; restart the server",
                self.node
            ));
        } else if let Some(why) = &self.store_failed {
            problems.push(format!(
                "spv: the chain store cannot take the blocks of {}; answers are those of {tip}{behind}: {why}",
                self.node
            ));
        } else if let Some(why) = &self.refused {
            problems.push(format!("spv: what {} gives is not served: {why}", self.node));
        } else {
            // A server that never had a block cannot do its work.
            let list = match height {
                Some(_) => &mut warnings,
                None => &mut problems,
            };
            if let Some((why, since)) = &self.away {
                let seconds = since.elapsed().as_secs();
                list.push(format!(
                    "spv: {} has not been followed for {seconds} s; answers are those of {tip}{behind}: {why}",
                    self.node
                ));
            } else if !self.at_tip {
                list.push(format!(
                    "spv: catching up with {}; answers are those of {tip}{behind}",
                    self.node
                ));
            }
        }
        (problems, warnings)
    }
}
