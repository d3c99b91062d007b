//! Adapter that runs the odometer on every datapath that processes whole frames.

use lineside_conformance::frames::{self, FrameService};
use lineside_conformance::native::NativeMap;
use lineside_example_service::fastpath::{OdometerFastPath, Store};
use lineside_example_service::service::program;
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};
use std::io;
use std::sync::Arc;

/// The odometer, for the generic conformance tests.
pub struct Odometer;

/// Datapath of the odometer that processes whole frames.
pub type FrameDatapath = frames::FrameDatapath<Odometer>;

impl FrameService for Odometer {
    type Geometry = ();
    type Store = Store;
    type FastPath = OdometerFastPath;
    const COUNTS: &str = "odometer_counts";

    fn program((): &(), port: u16) -> ProgramSpec {
        program(port)
    }

    fn store(datapath: &mut XdpDatapath, (): &()) -> Result<Store, XdpError> {
        datapath.table("odometer_control", 1)
    }

    fn anonymous((): &()) -> io::Result<Store> {
        Store::anonymous(1)
    }

    fn format(_store: &Store, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn fastpath(store: Arc<Store>) -> OdometerFastPath {
        OdometerFastPath {
            store,
            counters: Default::default(),
        }
    }

    fn counters(fastpath: &OdometerFastPath) -> Vec<u64> {
        fastpath.counters.read().to_vec()
    }

    fn native_maps(store: &Arc<Store>) -> Vec<NativeMap> {
        vec![
            NativeMap::table("odometer_control", store, |store| store),
            NativeMap::value("odometer_counts"),
        ]
    }
}
