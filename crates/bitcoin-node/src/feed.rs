//! Combination of a node and its follower, which returns events to the caller and adds pauses while the node is
//! unreachable.

use crate::backoff::Backoff;
use crate::error::{NodeError, NodeFault};
use crate::follower::{ChainStep, Follower, LocalChain};
use crate::node::{Announcement, Node};
use std::time::{Duration, Instant};

/// Shortest and longest pause between attempts to reach the node.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// Maximum pause before a node whose chain has less work than the local one is contacted again.
const LESS_WORK_PAUSE: Duration = Duration::from_secs(1);

/// Event for the caller to handle or to display.
#[derive(Debug)]
pub enum Event {
    /// The local chain must change. The caller carries out the step before its next call.
    Step(ChainStep),
    /// The local chain is equal to the node's.
    AtTip,
    /// The node is unreachable, sends wrong data, or cannot send a needed block. It is contacted again after the pause;
    /// calls during the pause return [`Event::Pausing`].
    Away {
        /// Reason why the node cannot be followed.
        error: NodeError,
        /// Time until the next attempt.
        pause: Duration,
    },
    /// The pause after [`Event::Away`] is not over.
    Pausing,
}

/// Node that is followed, and the state of its follower.
pub struct Feed {
    node: Box<dyn Node>,
    follower: Follower,
    backoff: Backoff,
    retry_at: Option<Instant>,
    at_tip: bool,
    announced: Option<Announcement>,
}

impl Feed {
    /// Returns a feed that follows `node`.
    pub fn new(node: Box<dyn Node>, follower: Follower) -> Feed {
        let [shortest, longest] = RETRY_PAUSES;
        Feed {
            node,
            follower,
            backoff: Backoff::new(shortest, longest),
            retry_at: None,
            at_tip: false,
            announced: None,
        }
    }

    /// Returns the next event, after at most `timeout` and the time limits of the node's calls. The function waits only
    /// if the last event was [`Event::AtTip`], or if a pause is not over.
    pub fn next(&mut self, local: &dyn LocalChain, timeout: Duration) -> Event {
        if let Some(retry_at) = self.retry_at {
            let left = retry_at.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(timeout));
            if left > timeout {
                return Event::Pausing;
            }
            self.retry_at = None;
        }
        match self.ask(local, timeout) {
            Ok(Some(step)) => {
                self.at_tip = false;
                self.backoff.reset();
                Event::Step(step)
            }
            Ok(None) => {
                self.at_tip = true;
                self.backoff.reset();
                Event::AtTip
            }
            Err(error) => {
                let mut pause = self.backoff.pause();
                // The node is reachable and may have more work after its next block, so the pause is short.
                if matches!(error.fault, NodeFault::LessWork { .. }) {
                    pause = pause.min(LESS_WORK_PAUSE);
                }
                self.at_tip = false;
                self.retry_at = Some(Instant::now() + pause);
                Event::Away { error, pause }
            }
        }
    }

    /// Makes the next call of [`Feed::next`] compare the chains without waiting for a change of the node's chain. The
    /// caller calls this if the local chain changes after [`Event::AtTip`].
    pub fn compare_again(&mut self) {
        self.at_tip = false;
    }

    /// Returns the announcement that caused the last comparison; `None` if no announcement caused it.
    pub fn announced(&self) -> Option<Announcement> {
        self.announced
    }

    /// Returns the node.
    pub fn node(&mut self) -> &mut dyn Node {
        &mut *self.node
    }

    fn ask(&mut self, local: &dyn LocalChain, timeout: Duration) -> Result<Option<ChainStep>, NodeError> {
        if self.at_tip {
            let announced = self.node.wait_for_change(&self.follower.best(), timeout);
            self.announced = announced.inspect_err(|_| self.follower.check_network_again())?;
            if self.announced.is_none() {
                return Ok(None);
            }
        }
        self.follower.next_step(&mut *self.node, local)
    }
}
