//! List of the services in this program. The daemon, the configuration and `lineside xdp` use only this list, so that a
//! new service needs no change in them.

use lineside_service::ServiceDef;

/// Every service, in the order in which they start.
pub static SERVICES: &[ServiceDef] = &[
    lineside_spv::service::DEF,
    lineside_transfer::service::DEF,
    lineside_column::service::DEF,
    lineside_fabric_replica::service::DEF,
    lineside_hybrid_node::service::DEF,
];
