//! Handle that interrupts the calls of a node from another thread.

use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;

/// Handle that interrupts the calls of a node: the current call and all later ones fail with
/// [`NodeFault::Interrupted`](crate::Fault::Interrupted). Clones belong to the same node.
#[derive(Clone, Debug)]
pub struct Interrupter(Arc<watch::Sender<bool>>);

impl Default for Interrupter {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Interrupter {
    /// Interrupts the current call and all later ones.
    pub fn interrupt(&self) {
        self.0.send_replace(true);
    }

    /// Returns true if the calls were interrupted.
    pub fn is_interrupted(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns a future that completes when the calls are interrupted.
    pub(crate) fn interrupted(&self) -> impl Future<Output = ()> + use<> {
        let mut changes = self.0.subscribe();
        async move {
            // `wait_for` fails only if the sender was dropped, and the node owns the sender, so no call can then wait.
            let _ = changes.wait_for(|is_over| *is_over).await;
        }
    }
}
