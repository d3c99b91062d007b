//! The daemon: the services that are wanted, side by side, at one interface and behind one console.

mod column;
pub mod hybrid;
mod place;
mod settle;
mod spv;
mod transfer;

pub use spv::open_chain;

use crate::config::Config;
use crate::line::{self, Line};
use anyhow::bail;
use lineside_console::Snapshot;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// The services while they run; they end when it is dropped.
pub struct Daemon {
    // In the order in which they end: `transfer` takes what the line has left in its rings when the line has stopped.
    spv: Option<spv::Running>,
    column: Option<column::Running>,
    transfer: Option<transfer::Running>,
    hybrid: Option<hybrid::Running>,
    started: Instant,
    warnings: Vec<String>,
}

/// One running service.
pub struct Serving {
    /// Its name.
    pub name: &'static str,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where the fast path runs, in words; of a service without one, how it is reached.
    pub datapath: String,
}

impl Daemon {
    /// Opens what the enabled services stand on, gives up the privileges that are not needed any more, and serves.
    ///
    /// # Errors
    /// What stands in the way, and what to do about it.
    pub fn start(config: &Config) -> anyhow::Result<Self> {
        let (has_spv, has_transfer) = (config.spv.enabled, config.transfer.enabled);
        let (has_column, has_hybrid) = (config.column.enabled, config.hybrid.enabled);
        if !has_spv && !has_transfer && !has_column && !has_hybrid {
            bail!("no service is enabled: `enabled = true` in [spv], [transfer], [column] or [hybrid]");
        }
        let leaves_with_server = [(has_transfer, "transfer"), (has_column, "column")];
        if let Some((_, name)) = leaves_with_server
            .iter()
            .find(|(has, _)| *has && config.datapath.keep_fast_path)
        {
            bail!(
                "keep_fast_path: the fast path of {name} always ends with its server; take it out of [datapath], or \
                 drop --keep-fast-path"
            );
        }
        let mut warnings = config.warnings();
        let chain = has_spv.then(|| open_chain(config, &mut warnings)).transpose()?;
        let geometry = has_transfer
            .then(|| transfer::prepare(config, &mut warnings))
            .transpose()?;
        let made = has_column.then(|| column::prepare(&config.column)).transpose()?;
        let prepared = has_hybrid.then(|| hybrid::prepare(&config.hybrid)).transpose()?;
        crate::privileges::drop_all_but_bpf()?;

        let mut listens = Vec::new();
        listens.extend(has_spv.then_some(config.spv.listen));
        listens.extend(has_transfer.then_some(config.transfer.listen));
        listens.extend(has_column.then_some(config.column.listen));
        let images = || {
            let spv = has_spv.then(|| spv::image(config));
            let transfer = geometry
                .as_ref()
                .map(|geometry| transfer::image(config, geometry));
            let column = has_column.then(|| column::image(&config.column));
            spv.into_iter().chain(transfer).chain(column).collect()
        };
        let mut loaded = line::load(&config.datapath, &listens, images, &mut warnings)?;
        let mut xdp = loaded.as_mut().map(|(xdp, _)| xdp);
        let spv = chain
            .map(|chain| spv::Opened::new(config, chain, xdp.as_deref_mut()))
            .transpose()?;
        let column = has_column
            .then(|| column::Opened::new(config, xdp.as_deref_mut()))
            .transpose()?;
        let transfer = geometry
            .map(|geometry| transfer::Opened::new(config, &geometry, xdp, &mut warnings))
            .transpose()?;
        let hybrid = prepared
            .map(|prepared| hybrid::Running::start(config, prepared))
            .transpose()?;
        let line = Line::attach(&config.datapath, loaded, &mut warnings)?;
        let daemon = Self {
            spv: spv.map(|spv| spv.run(&line)).transpose()?,
            column: column.map(|column| column.run(&line)).transpose()?,
            transfer: transfer.map(|transfer| transfer.run(&line)).transpose()?,
            hybrid,
            started: Instant::now(),
            warnings,
        };
        if let Some(made) = made {
            made.stays();
        }
        Ok(daemon)
    }

    /// Those that run; at least one.
    pub fn serving(&self) -> Vec<Serving> {
        let spv = self.spv.as_ref().map(|spv| Serving {
            name: "spv",
            listen: spv.listen(),
            datapath: spv.datapath(),
        });
        let transfer = self.transfer.as_ref().map(|transfer| Serving {
            name: "transfer",
            listen: transfer.listen(),
            datapath: transfer.datapath(),
        });
        let column = self.column.as_ref().map(|column| Serving {
            name: "column",
            listen: column.listen(),
            datapath: column.datapath(),
        });
        let hybrid = self.hybrid.as_ref().map(|hybrid| Serving {
            name: "hybrid",
            listen: hybrid.listen(),
            datapath: hybrid.ways(),
        });
        let all = spv.into_iter().chain(transfer).chain(column).chain(hybrid);
        all.collect()
    }

    /// What its operator should know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How it is, whenever it is asked.
    pub fn observed(&self) -> Arc<dyn Fn() -> Snapshot + Send + Sync> {
        let spv = self.spv.as_ref().map(spv::Running::inner);
        let transfer = self.transfer.as_ref().map(transfer::Running::inner);
        let column = self.column.as_ref().map(column::Running::inner);
        let hybrid = self.hybrid.as_ref().map(hybrid::Running::inner);
        let (started, known) = (self.started, self.warnings.clone());
        Arc::new(move || {
            let mut warnings = known.clone();
            let mut problems = Vec::new();
            let mut services = Vec::new();
            services.extend(spv.as_ref().map(|spv| spv.status(&mut problems)));
            services.extend(transfer.as_ref().map(|transfer| transfer.status(&mut problems)));
            services.extend(column.as_ref().map(|column| column.status(&mut problems)));
            services.extend(
                hybrid
                    .as_ref()
                    .map(|hybrid| hybrid.status(&mut problems, &mut warnings)),
            );
            Snapshot {
                version: env!("CARGO_PKG_VERSION").into(),
                uptime_s: started.elapsed().as_secs(),
                services,
                problems,
                warnings,
            }
        })
    }
}
