//! The simulated NIC: one frame with the clock cycles of its events.

use super::ran::{Cycles, Ran, risen, with_reason};
use super::service::Explained;
use lineside_fastpath::{DropReason, FrameVerdict, lease};
use lineside_rtl::sim::{Pauses, Simulation};
use lineside_rtl::{Command, NicVerdict, SimEvent, SimEventKind, endpoint_commands};
use lineside_wire::endpoint::Endpoint;
use std::path::Path;

/// NIC with a copy of a fast-path table.
pub struct LoadedNic(Simulation);

impl LoadedNic {
    /// Returns a NIC with a copy of `store`, at this interface and UDP port.
    ///
    /// # Errors
    /// The simulation has a fault.
    pub fn new<S: Explained>(store: &S::Store, endpoint: &Endpoint, port: u16) -> anyhow::Result<Self> {
        let mut sim = Simulation::new(S::DESIGN)?;
        let mut commands = endpoint_commands(endpoint);
        commands.extend(S::nic_commands(store));
        commands.push(Command::register(S::PORT_REGISTER, &port.to_le_bytes()));
        sim.execute(&commands)?;
        Ok(Self(sim))
    }

    /// Runs the frame. With `waveform`, writes the signals of this run.
    ///
    /// # Errors
    /// The simulation has a fault, or the waveform cannot be written.
    pub fn run<S: Explained>(
        &mut self,
        frame: &[u8],
        waveform: Option<&Path>,
    ) -> anyhow::Result<(Ran, Cycles)> {
        let sim = &mut self.0;
        let before = sim.counters();
        begin_trace(sim, waveform)?;
        sim.watch(true);
        sim.set_now(lease::now_ns());
        let (mut left, _) = sim.run(&[frame.to_vec()], Pauses::default())?;
        end_trace(sim, waveform)?;
        let after = sim.counters();
        let (verdict, left) = match left.pop() {
            Some(left) if left.verdict == NicVerdict::Reply => (FrameVerdict::Transmit, left.frame),
            Some(left) if left.verdict == NicVerdict::Forward => (FrameVerdict::Pass, left.frame),
            _ => (FrameVerdict::Drop(DropReason::NotARequest), Vec::new()),
        };
        let ran = Ran {
            verdict: with_reason(verdict, &before.drops, &after.drops),
            left,
            counters: risen::<S>(
                [&S::nic_counters(&before), &S::nic_counters(&after)],
                [&before.drops, &after.drops],
            ),
        };
        Ok((ran, cycles::<S>(&sim.events())))
    }
}

#[cfg(feature = "rtl-trace")]
fn begin_trace(sim: &mut Simulation, waveform: Option<&Path>) -> anyhow::Result<()> {
    use anyhow::Context;
    let Some(path) = waveform else { return Ok(()) };
    sim.begin_trace(path)
        .with_context(|| format!("writing {}", path.display()))
}

#[cfg(feature = "rtl-trace")]
fn end_trace(sim: &mut Simulation, waveform: Option<&Path>) -> anyhow::Result<()> {
    use anyhow::Context;
    let Some(path) = waveform else { return Ok(()) };
    sim.end_trace()
        .with_context(|| format!("writing {}", path.display()))
}

#[cfg(not(feature = "rtl-trace"))]
fn begin_trace(_sim: &mut Simulation, _waveform: Option<&Path>) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(not(feature = "rtl-trace"))]
fn end_trace(_sim: &mut Simulation, _waveform: Option<&Path>) -> anyhow::Result<()> {
    Ok(())
}

/// Returns the events that matter: first and last beats, decisions, and the end of the frame.
fn cycles<S: Explained>(events: &[SimEvent]) -> Cycles {
    let names = S::counter_names();
    let first = |kinds: &[SimEventKind]| events.iter().find(|event| kinds.contains(&event.kind));
    let Some(begin) = first(&[SimEventKind::In]).map(|event| event.cycle) else {
        return Cycles::default();
    };
    let first_out = first(&[SimEventKind::Network, SimEventKind::Host]).map(|event| event.cycle);
    let is_last_in = |event: &&SimEvent| event.kind == SimEventKind::In && event.index == 1;
    let last_in = events.iter().find(is_last_in).map(|event| event.cycle);
    let mut found = Cycles {
        events: Vec::new(),
        latency: first_out.zip(last_in).map(|(out, last)| out.saturating_sub(last)),
    };
    let mut add = |cycle: u64, name, text: &str| {
        found
            .events
            .push((cycle.saturating_sub(begin), name, text.to_owned()))
    };
    for event in events {
        let (cycle, index) = (event.cycle, event.index);
        match event.kind {
            SimEventKind::In => {
                if cycle == begin {
                    add(cycle, "first_in", "first beat in");
                }
                if index == 1 {
                    add(cycle, "last_in", "last beat in");
                }
            }
            SimEventKind::Counted => {
                let name = names.get(index as usize).unwrap_or(&"?");
                add(cycle, "decision", &format!("decision, counted as {name}"));
            }
            SimEventKind::Dropped => {
                let name = DropReason::ALL.get(index as usize).map_or("?", |of| of.name());
                add(cycle, "decision", &format!("decision, counted as a drop: {name}"));
            }
            SimEventKind::Network | SimEventKind::Host => {
                let output = match event.kind {
                    SimEventKind::Network => "network",
                    _ => "host",
                };
                if Some(cycle) == first_out {
                    add(
                        cycle,
                        "first_out",
                        &format!("first beat out, to the {output} (m_axis_{output})"),
                    );
                }
                if index == 1 {
                    add(
                        cycle,
                        "last_out",
                        &format!("last beat out, to the {output} (m_axis_{output})"),
                    );
                }
            }
            SimEventKind::Passed => add(cycle, "done", "the frame has left the pipeline, or was dropped"),
        }
    }
    found.events.sort_by_key(|(cycle, ..)| *cycle);
    found
}
