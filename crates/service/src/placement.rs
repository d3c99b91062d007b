//! Rules that the section `[datapath]` and the services must meet together. They concern the configuration alone: they
//! read no file and ask nothing of the machine.

use crate::attachment::XdpAttachment;
use crate::{DatapathConfig, DatapathKind, NicAttachment, NicProgram, Service};
use std::net::SocketAddr;

/// Beginning of messages of the datapath `rtl` that name their key themselves.
const OF_RTL: &str = "[datapath] kind = \"rtl\": ";

/// Returns the reasons why the enabled services cannot run with this section: a key of the section, and a text that
/// begins with its value. Empty if no service is enabled.
pub fn placement_faults(datapath: &DatapathConfig, enabled: &[&dyn Service]) -> Vec<(&'static str, String)> {
    if enabled.is_empty() {
        return Vec::new();
    }
    let mut faults: Vec<_> = enabled
        .iter()
        .flat_map(|service| service.datapath_faults(datapath))
        .collect();
    match datapath.kind {
        DatapathKind::Rtl => {
            let programs: Vec<NicProgram> = enabled
                .iter()
                .filter_map(|service| service.nic_program())
                .collect();
            if let Err(error) = NicAttachment::check(datapath, programs) {
                let text = error.to_string();
                let text = text.strip_prefix(OF_RTL).unwrap_or(&text);
                faults.push(("kind", format!("\"rtl\": {text}")));
            }
        }
        DatapathKind::Xdp => {
            let listens = enabled.iter().flat_map(|service| service.listens());
            let listens: Vec<SocketAddr> = listens
                .filter(|listen| listen.has_fast_path)
                .map(|listen| listen.address)
                .collect();
            let fault = XdpAttachment::fault(datapath.interfaces.len(), &listens);
            faults.extend(fault.map(|fault| ("kind", format!("\"xdp\": {fault}"))));
        }
        // With `auto` the fast paths run on the socket datapath if XDP cannot serve these addresses.
        DatapathKind::Auto | DatapathKind::Socket => {}
    }
    faults
}
