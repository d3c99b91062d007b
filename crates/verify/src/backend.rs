//! Selection of the backend, which implements the arithmetic, and the tables of the generators, which all verifiers of
//! the process share.

#[cfg(all(target_arch = "x86_64", feature = "simd"))]
use crate::avx512ifma::{self, Ifma};
use crate::curve::{Curve, P256, Params, Secp256k1};
use crate::engine::{self, Job, Scratch, Tally};
use crate::generator;
use crate::lanes::Lanes;
use crate::portable::{Portable, Reduction};
use crate::table::Table;
use crate::uint::U256;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use thiserror::Error;

/// Implementation of the arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// Eight signatures at a time with AVX-512 IFMA, on Intel Ice Lake, AMD Zen 4 and newer processors.
    Avx512Ifma,
    /// Plain Rust without SIMD, on any CPU.
    Portable,
    /// Other libraries, for comparison in tests: aws-lc-rs for P-256 and libsecp256k1 for secp256k1, one signature at a
    /// time and without tables. Available with the feature `library`.
    Library,
}

/// Error for a backend that this CPU or this build does not support.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[error("the backend {} is not available: this CPU or this build does not support it", .0.name())]
pub struct BackendUnavailable(pub Backend);

impl Backend {
    /// All backends, also those that this CPU or build does not support; the fastest first.
    pub const ALL: &'static [Backend] = &[Backend::Avx512Ifma, Backend::Portable, Backend::Library];

    /// Returns the name of the backend: `avx512ifma`, `portable` or `library`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Avx512Ifma => "avx512ifma",
            Backend::Portable => "portable",
            Backend::Library => "library",
        }
    }

    /// Returns the backend of this name, also if this CPU or build does not support it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|backend| backend.name() == name)
    }

    /// Returns true if this build contains the backend and the CPU supports it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(all(target_arch = "x86_64", feature = "simd"))]
            Backend::Avx512Ifma => avx512ifma::is_available(),
            #[cfg(not(all(target_arch = "x86_64", feature = "simd")))]
            Backend::Avx512Ifma => false,
            Backend::Portable => true,
            Backend::Library => cfg!(feature = "library"),
        }
    }

    /// Returns the number of uses after which a key gets the smallest table. After about this number of uses, the table
    /// would have saved as much time as its construction takes.
    ///
    /// With AVX-512, building a table takes 95 µs, or 47 µs for each of eight that are built together. A use of the
    /// table saves 6.6 µs in a batch of 256 signatures, and 59 µs in a batch of one. The portable backend takes 215 µs
    /// for a table, and a use saves 50 µs.
    pub(crate) fn first_uses(self) -> u64 {
        match self {
            Backend::Avx512Ifma => 8,
            _ => 4,
        }
    }

    /// Returns the fastest backend that this CPU and this build support.
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

/// Engine that verifies signatures over one curve on one backend.
pub(crate) trait Machine: Send + Sync {
    fn verify(&self, generator: &Table, jobs: &mut [Job<'_>], decided: &mut dyn FnMut(usize, bool)) -> Tally;
    /// Builds the tables of points.
    fn build(&self, points: &[(U256, U256)], width: u32) -> Vec<Table>;
    /// Returns the curve and its generator.
    fn curve(&self) -> (Curve, (U256, U256));
}

/// Returns the engine for a curve on a backend; `None` if the backend uses no tables.
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
        (Backend::Library, _) if backend.is_available() => return Ok(None),
        (Backend::Library, _) => return Err(BackendUnavailable(backend)),
    };
    Ok(Some(machine))
}

struct On<L: Lanes> {
    l: L,
    /// Scratch memories that no thread uses at present. Their number grows to the maximum number of threads that
    /// verified at the same time.
    scratch: Mutex<Vec<Scratch<L>>>,
    /// Generator's table of the portable backend, with which a single signature of a key without a table is verified.
    /// The process has one for each curve.
    portable_generator: OnceLock<Arc<Table>>,
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
            portable_generator: OnceLock::new(),
        })
    }

    fn portable_generator(&self) -> Arc<Table> {
        let build = || {
            shared(Backend::Portable, L::Curve::CURVE, generator::SMALL_WIDTH, || {
                Table::build_all(
                    Portable::<L::Curve>::new(),
                    &[L::Curve::G],
                    generator::SMALL_WIDTH,
                )
            })
        };
        Arc::clone(self.portable_generator.get_or_init(build))
    }
}

impl<L: Lanes> Machine for On<L>
where
    L::Curve: Reduction,
    Scratch<L>: Send,
{
    fn verify(&self, generator: &Table, jobs: &mut [Job<'_>], decided: &mut dyn FnMut(usize, bool)) -> Tally {
        let mut scratch = lock(&self.scratch).pop().unwrap_or_default();
        let tally = engine::verify(
            self.l,
            generator,
            jobs,
            &mut scratch,
            &mut || Some(self.portable_generator()),
            decided,
        );
        lock(&self.scratch).push(scratch);
        tally
    }

    fn build(&self, points: &[(U256, U256)], width: u32) -> Vec<Table> {
        Table::build_all(self.l, points, width)
    }

    fn curve(&self) -> (Curve, (U256, U256)) {
        (L::Curve::CURVE, L::Curve::G)
    }
}

/// Locks a mutex, also a poisoned one. The data of the locks in this crate is consistent at every point at which a
/// panic can occur, so a poisoned lock can be used.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of possible widths of tables: every width is below this number.
const WIDTHS: usize = 17;

/// The generators' tables in use, by backend, curve and width. Each table has its own lock, which a thread holds while
/// it builds the table (36 to 118 ms for width 16), so that users of other tables do not wait.
static GENERATORS: [[[Mutex<Weak<Table>>; WIDTHS]; 2]; 2] =
    [const { [const { [const { Mutex::new(Weak::new()) }; WIDTHS] }; 2] }; 2];

fn place(backend: Backend, curve: Curve, width: u32) -> &'static Mutex<Weak<Table>> {
    let backend = usize::from(backend == Backend::Portable);
    &GENERATORS[backend][curve as usize][width as usize]
}

/// Returns the generator's table of this width if it already exists. The function does not wait for a thread that is
/// building the table.
pub(crate) fn shared_generator(backend: Backend, machine: &dyn Machine, width: u32) -> Option<Arc<Table>> {
    let place = place(backend, machine.curve().0, width);
    match place.try_lock() {
        Ok(table) => table.upgrade(),
        Err(TryLockError::Poisoned(table)) => table.into_inner().upgrade(),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the generator's table of this width, and builds the table if it does not exist. Other threads that call the
/// function during the construction wait for the table and share it.
pub(crate) fn generator(backend: Backend, machine: &dyn Machine, width: u32) -> Arc<Table> {
    let (curve, point) = machine.curve();
    shared(backend, curve, width, || machine.build(&[point], width))
}

fn shared(backend: Backend, curve: Curve, width: u32, build: impl FnOnce() -> Vec<Table>) -> Arc<Table> {
    let mut place = lock(place(backend, curve, width));
    if let Some(table) = place.upgrade() {
        return table;
    }
    let table = build().into_iter().next().map(Arc::new);
    let table = table.expect("`build` returns a table for each point");
    *place = Arc::downgrade(&table);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Engine that waits with the construction of a table until the test permits it.
    struct PausedMachine {
        curve: Curve,
        begun: Mutex<Sender<()>>,
        go: Mutex<Receiver<()>>,
    }

    impl Machine for PausedMachine {
        fn verify(&self, _: &Table, _: &mut [Job<'_>], _: &mut dyn FnMut(usize, bool)) -> Tally {
            Tally::default()
        }

        fn build(&self, points: &[(U256, U256)], width: u32) -> Vec<Table> {
            lock(&self.begun).send(()).unwrap();
            lock(&self.go).recv().unwrap();
            Table::build_all(Portable::<P256>::new(), points, width)
        }

        fn curve(&self) -> (Curve, (U256, U256)) {
            (self.curve, P256::G)
        }
    }

    fn paused(curve: Curve) -> (PausedMachine, Receiver<()>, Sender<()>) {
        let ((begun, has_begun), (go, may_go)) = (channel(), channel());
        let (begun, may_go) = (Mutex::new(begun), Mutex::new(may_go));
        (
            PausedMachine {
                curve,
                begun,
                go: may_go,
            },
            has_begun,
            go,
        )
    }

    /// Checks that only the users of a table wait for its construction. The test uses a width that no other test uses,
    /// because the whole process shares the tables.
    #[test]
    fn a_generator_waits_for_its_own_table_only() {
        const WIDTH: u32 = 3;
        let backend = Backend::Portable;
        let (slow, slow_begun, slow_go) = paused(Curve::P256);
        let (quick, _quick_begun, quick_go) = paused(Curve::Secp256k1);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| generator(backend, &slow, WIDTH));
            slow_begun.recv().unwrap();
            // Meanwhile, other curves, other widths and the query for existing tables do not wait.
            quick_go.send(()).unwrap();
            generator(backend, &quick, WIDTH);
            quick_go.send(()).unwrap();
            generator(backend, &quick, WIDTH - 1);
            assert!(shared_generator(backend, &slow, WIDTH).is_none());
            let second = scope.spawn(|| generator(backend, &slow, WIDTH));
            slow_go.send(()).unwrap();
            let (first, second) = (first.join().unwrap(), second.join().unwrap());
            assert!(Arc::ptr_eq(&first, &second), "both threads have the same table");
            assert!(shared_generator(backend, &slow, WIDTH).is_some());
        });
        assert!(
            shared_generator(backend, &slow, WIDTH).is_none(),
            "no verifier has the table any more"
        );
    }
}
