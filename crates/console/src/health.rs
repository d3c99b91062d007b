//! Health of the process, for load balancers, orchestrators and people.

use lineside_service::Snapshot;
use serde::{Deserialize, Serialize};

/// The JSON object of `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Status of the whole process: failed if a service or the process itself has failed.
    pub status: HealthStatus,
    /// Reasons that do not belong to a single service.
    pub reasons: Vec<String>,
    /// All running services.
    pub services: Vec<ServiceHealth>,
    /// Warnings for the operator, although everything works.
    pub warnings: Vec<String>,
}

/// Health of one service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceHealth {
    /// Name of the service, such as `spv`.
    pub name: String,
    /// Name of the instance, if the service can run several times; for `fabric`, the channel.
    pub instance: Option<String>,
    /// Status of the service: failed if `reasons` is not empty.
    pub status: HealthStatus,
    /// Reasons why the service cannot do its work.
    pub reasons: Vec<String>,
}

/// Result of a check of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    /// The process or service does its work.
    Ok,
    /// The process or service cannot do its work.
    Failed,
}

impl HealthStatus {
    fn of(is_ok: bool) -> Self {
        if is_ok { Self::Ok } else { Self::Failed }
    }
}

impl From<&Snapshot> for Health {
    fn from(snapshot: &Snapshot) -> Self {
        let services = snapshot.services.iter().map(|service| {
            let reasons = service.faults();
            ServiceHealth {
                name: service.name.clone(),
                instance: service.instance.clone(),
                status: HealthStatus::of(reasons.is_empty()),
                reasons,
            }
        });
        Self {
            status: HealthStatus::of(snapshot.faults().is_empty()),
            reasons: snapshot.process_faults(),
            services: services.collect(),
            warnings: snapshot.warnings.clone(),
        }
    }
}
