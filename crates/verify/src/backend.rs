//! Which arithmetic runs, and the tables of the generators, which all verifiers of the process share.

#[cfg(all(target_arch = "x86_64", feature = "simd"))]
use crate::avx512ifma::{self, Ifma};
use crate::curve::{Curve, P256, Params, Secp256k1};
use crate::engine::{self, Job, Scratch, Tally};
use crate::lanes::Lanes;
use crate::portable::{Portable, Reduction};
use crate::table::Table;
use crate::uint::U256;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use thiserror::Error;

/// What does the arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Backend {
    /// Eight signatures at a time in AVX-512 IFMA: Ice Lake, Zen 4 and newer.
    Avx512Ifma,
    /// Plain Rust, on any CPU.
    Portable,
    /// aws-lc-rs for P-256, libsecp256k1 for secp256k1, a signature at a time and without tables: the oracle to
    /// compare with.
    #[cfg(feature = "library")]
    Library,
}

/// The back end that was asked for does not run here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[error("the back end {} does not run here: this CPU, or this build, lacks it", .0.name())]
pub struct BackendUnavailable(pub Backend);

impl Backend {
    /// Every back end that this build knows, the fastest first.
    pub const ALL: &'static [Backend] = &[
        Backend::Avx512Ifma,
        Backend::Portable,
        #[cfg(feature = "library")]
        Backend::Library,
    ];

    /// `avx512ifma`, `portable` or `library`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Avx512Ifma => "avx512ifma",
            Backend::Portable => "portable",
            #[cfg(feature = "library")]
            Backend::Library => "library",
        }
    }

    /// The back end of that name, if this build knows it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|backend| backend.name() == name)
    }

    /// Whether it runs here: is in this build, and the CPU has what it needs.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(all(target_arch = "x86_64", feature = "simd"))]
            Backend::Avx512Ifma => avx512ifma::is_available(),
            #[cfg(not(all(target_arch = "x86_64", feature = "simd")))]
            Backend::Avx512Ifma => false,
            Backend::Portable => true,
            #[cfg(feature = "library")]
            Backend::Library => true,
        }
    }

    /// The fastest that runs here.
    pub fn best() -> Self {
        if Backend::Avx512Ifma.is_available() {
            Backend::Avx512Ifma
        } else {
            Backend::Portable
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The engine over one curve, on one back end.
pub(crate) trait Machine: Send + Sync {
    fn verify(&self, generator: &Table, jobs: &mut [Job<'_>], decided: &mut dyn FnMut(usize, bool)) -> Tally;
    fn build(&self, point: &(U256, U256), width: u32) -> Table;
    /// The curve and its generator.
    fn curve(&self) -> (Curve, (U256, U256));
}

/// The machine of a curve, or none where the back end has no tables.
pub(crate) fn machine(
    backend: Backend,
    curve: Curve,
) -> Result<Option<Box<dyn Machine>>, BackendUnavailable> {
    let machine: Box<dyn Machine> = match (backend, curve) {
        #[cfg(all(target_arch = "x86_64", feature = "simd"))]
        (Backend::Avx512Ifma, Curve::P256) => {
            On::boxed(Ifma::<P256>::new().ok_or(BackendUnavailable(backend))?)
        }
        #[cfg(all(target_arch = "x86_64", feature = "simd"))]
        (Backend::Avx512Ifma, Curve::Secp256k1) => {
            On::boxed(Ifma::<Secp256k1>::new().ok_or(BackendUnavailable(backend))?)
        }
        #[cfg(not(all(target_arch = "x86_64", feature = "simd")))]
        (Backend::Avx512Ifma, _) => return Err(BackendUnavailable(backend)),
        (Backend::Portable, Curve::P256) => On::boxed(Portable::<P256>::new()),
        (Backend::Portable, Curve::Secp256k1) => On::boxed(Portable::<Secp256k1>::new()),
        #[cfg(feature = "library")]
        (Backend::Library, _) => return Ok(None),
    };
    Ok(Some(machine))
}

struct On<L: Lanes> {
    l: L,
    /// As many as there ever were threads in `verify` at a time.
    scratch: Mutex<Vec<Scratch<L>>>,
}

impl<L: Lanes> On<L>
where
    L::Curve: Reduction,
    Scratch<L>: Send,
{
    fn boxed(l: L) -> Box<dyn Machine> {
        Box::new(Self {
            l,
            scratch: Mutex::default(),
        })
    }
}

impl<L: Lanes> Machine for On<L>
where
    L::Curve: Reduction,
    Scratch<L>: Send,
{
    fn verify(&self, generator: &Table, jobs: &mut [Job<'_>], decided: &mut dyn FnMut(usize, bool)) -> Tally {
        let mut scratch = lock(&self.scratch).pop().unwrap_or_default();
        let tally = engine::verify(self.l, generator, jobs, &mut scratch, decided);
        lock(&self.scratch).push(scratch);
        tally
    }

    fn build(&self, point: &(U256, U256), width: u32) -> Table {
        Table::build(self.l, point, width)
    }

    fn curve(&self) -> (Curve, (U256, U256)) {
        (L::Curve::CURVE, L::Curve::G)
    }
}

/// Takes a lock. What these locks guard is whole at any time that a panic may come, so a poisoned one is as good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type SharedTable = ((Backend, Curve, u32), Weak<Table>);

/// The generators' tables that somebody uses.
static GENERATORS: Mutex<Vec<SharedTable>> = Mutex::new(Vec::new());

/// The generator's table of that width, if somebody has it already.
pub(crate) fn shared_generator(backend: Backend, machine: &dyn Machine, width: u32) -> Option<Arc<Table>> {
    find(&lock(&GENERATORS), (backend, machine.curve().0, width))
}

fn find(shared: &[SharedTable], wanted: (Backend, Curve, u32)) -> Option<Arc<Table>> {
    shared
        .iter()
        .filter(|(which, _)| *which == wanted)
        .find_map(|(_, table)| table.upgrade())
}

/// The generator's table of that width, built where nobody has it. Who wants it meanwhile waits, and shares it.
pub(crate) fn generator(backend: Backend, machine: &dyn Machine, width: u32) -> Arc<Table> {
    let (curve, point) = machine.curve();
    let mut shared = lock(&GENERATORS);
    if let Some(table) = find(&shared, (backend, curve, width)) {
        return table;
    }
    let table = Arc::new(machine.build(&point, width));
    shared.retain(|(_, table)| table.strong_count() > 0);
    shared.push(((backend, curve, width), Arc::downgrade(&table)));
    table
}
