//! Steps that connect and disconnect blocks, to reach the chain with the most work.

use super::super::types::{BlockId, ChainError, Reorg};
use super::ChainStore;

impl ChainStore {
    /// Returns the steps from the connected chain to the one with the most work.
    pub fn plan(&self) -> Reorg {
        let mut plan = Reorg::default();
        let Some(best) = self.best else { return plan };
        let tip_work = self.active.last().map(|tip| self.entries[tip.0 as usize].work);
        if tip_work.is_some_and(|work| work >= self.entries[best.0 as usize].work) {
            return plan;
        }
        let mut common = 0;
        let mut next = Some(best);
        while let Some(id) = next {
            let entry = &self.entries[id.0 as usize];
            if entry.connected {
                common = entry.height as usize + 1;
                break;
            }
            plan.connect.push(id);
            next = entry.parent;
        }
        plan.connect.reverse();
        plan.disconnect = self.active[common..].iter().rev().copied().collect();
        plan
    }

    /// Takes all steps of [`ChainStore::plan`]. Returns the numbers of disconnected and connected blocks.
    pub fn catch_up(&mut self) -> Result<(usize, usize), ChainError> {
        let plan = self.plan();
        for id in &plan.disconnect {
            self.disconnect(*id)?;
        }
        for id in &plan.connect {
            self.connect(*id)?;
        }
        Ok((plan.disconnect.len(), plan.connect.len()))
    }

    /// Disconnects the tip. The store no longer finds the transactions of this block.
    pub fn disconnect(&mut self, id: BlockId) -> Result<(), ChainError> {
        let entry = self
            .entries
            .get_mut(id.0 as usize)
            .ok_or(ChainError::NoSuchBlock(id.0))?;
        if self.active.last() != Some(&id) {
            let why = if entry.detached {
                "it is detached"
            } else {
                "it is not the tip"
            };
            return Err(ChainError::IllegalStep {
                hash: entry.hash,
                step: "disconnected",
                why,
            });
        }
        entry.connected = false;
        self.active.pop();
        Ok(())
    }

    /// Connects a child of the tip, or a first block if nothing is connected.
    pub fn connect(&mut self, id: BlockId) -> Result<(), ChainError> {
        let tip = self.active.last().copied();
        let entry = self
            .entries
            .get_mut(id.0 as usize)
            .ok_or(ChainError::NoSuchBlock(id.0))?;
        let why = match () {
            _ if entry.detached => "it is detached",
            _ if entry.connected => "it is connected",
            _ if entry.parent != tip => "its parent is not the tip",
            _ => {
                entry.connected = true;
                self.active.push(id);
                return Ok(());
            }
        };
        Err(ChainError::IllegalStep {
            hash: entry.hash,
            step: "connected",
            why,
        })
    }
}
