//! Handle that ends the calls of a node from another thread.

use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;

/// Handle that ends the calls of a node: the call under way and all later ones fail with
/// [`Fault::Interrupted`](crate::Fault::Interrupted). Clones are of the same node.
#[derive(Clone, Debug)]
pub struct Interrupter(Arc<watch::Sender<bool>>);

impl Default for Interrupter {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Interrupter {
    /// Ends the call under way, and all later ones.
    pub fn interrupt(&self) {
        self.0.send_replace(true);
    }

    /// Returns true once the calls are to end.
    pub fn is_interrupted(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns a future that is ready once the calls are to end.
    pub(crate) fn interrupted(&self) -> impl Future<Output = ()> + use<> {
        let mut changes = self.0.subscribe();
        async move {
            // The sender lives as long as the node, so this fails only once nothing waits for it.
            let _ = changes.wait_for(|is_over| *is_over).await;
        }
    }
}
