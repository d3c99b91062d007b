//! Python module `lineside_verify`: ECDSA verification in batches over P-256 and secp256k1. `lineside_verify.pyi` has
//! the documentation for callers.
//!
//! A batch copies nothing but keys and digests out of Python: the bytes of signatures are borrowed from the `bytes`
//! objects, which the call keeps alive. Verification runs without the global interpreter lock.

use pyo3::prelude::*;

/// Python module of Lineside's signature verification.
#[pymodule]
mod lineside_verify {
    use engine::{Curve, Item, Options, SignatureBytes, Verdict};
    use pyo3::exceptions::{PyTypeError, PyValueError};
    use pyo3::prelude::*;
    use pyo3::pybacked::PyBackedBytes;
    use pyo3::types::PyBytes;

    /// Number of bytes of a digest.
    const DIGEST_BYTES: usize = 32;

    /// One item of a batch: a key (`PublicKey` or `PreparedKey`), a digest and a signature.
    type Signed<'py> = (Bound<'py, PyAny>, PyBackedBytes, PyBackedBytes);

    /// A public key, which was checked to be a point of its curve.
    #[pyclass(frozen, eq, hash, skip_from_py_object)]
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct PublicKey(engine::PublicKey);

    #[pymethods]
    impl PublicKey {
        /// Decodes a key of the curve "P-256" or "secp256k1": 33 or 65 bytes in SEC 1 encoding.
        #[new]
        fn new(curve: &str, sec1: &[u8]) -> PyResult<Self> {
            let curve = match curve {
                "P-256" => Curve::P256,
                "secp256k1" => Curve::Secp256k1,
                other => {
                    let error = format!("the curve {other:?} is unknown; use \"P-256\" or \"secp256k1\"");
                    return Err(PyValueError::new_err(error));
                }
            };
            let key = engine::PublicKey::from_sec1(curve, sec1);
            key.map(Self)
                .map_err(|error| PyValueError::new_err(error.to_string()))
        }

        /// Name of the curve.
        #[getter]
        fn curve(&self) -> &'static str {
            match self.0.curve() {
                Curve::P256 => "P-256",
                Curve::Secp256k1 => "secp256k1",
            }
        }

        /// Returns the key in SEC 1 encoding, 33 bytes, or 65 bytes if `compressed` is false.
        #[pyo3(signature = (compressed = true))]
        fn to_sec1<'py>(&self, py: Python<'py>, compressed: bool) -> Bound<'py, PyBytes> {
            if compressed {
                PyBytes::new(py, &self.0.to_sec1_compressed())
            } else {
                PyBytes::new(py, &self.0.to_sec1_uncompressed())
            }
        }

        fn __repr__(&self) -> String {
            format!("{:?}", self.0)
        }
    }

    /// A key whose table a verifier has built, and keeps until this object is deleted.
    #[pyclass(frozen)]
    struct PreparedKey(engine::PreparedKey);

    #[pymethods]
    impl PreparedKey {
        /// The key itself.
        #[getter]
        fn public_key(&self) -> PublicKey {
            PublicKey(*self.0.public_key())
        }

        /// Number of bytes of the key's table.
        #[getter]
        fn table_bytes(&self) -> usize {
            self.0.table_bytes()
        }

        fn __repr__(&self) -> String {
            format!("{:?}", self.0)
        }
    }

    /// Verifier with its tables. One is enough for a process; threads share it.
    #[pyclass(frozen)]
    struct Verifier(engine::Verifier);

    #[pymethods]
    impl Verifier {
        /// Creates a verifier. `table_bytes` limits its tables; `low_s` refuses signatures with an s above n/2.
        #[new]
        #[pyo3(signature = (*, table_bytes = 256 << 20, low_s = false))]
        fn new(table_bytes: usize, low_s: bool) -> PyResult<Self> {
            let options = Options {
                table_bytes,
                low_s,
                ..Options::default()
            };
            let verifier = engine::Verifier::new(options);
            verifier
                .map(Self)
                .map_err(|error| PyValueError::new_err(error.to_string()))
        }

        /// Name of the back end: "avx512ifma" or "portable".
        #[getter]
        fn backend(&self) -> &'static str {
            self.0.backend().name()
        }

        /// Builds the tables of keys before their first signatures.
        #[pyo3(signature = (keys, expected_signatures = 1_000))]
        fn prepare(
            &self,
            py: Python<'_>,
            keys: Vec<Bound<'_, PublicKey>>,
            expected_signatures: u64,
        ) -> PyResult<Vec<PreparedKey>> {
            let keys: Vec<engine::PublicKey> = keys.iter().map(|key| key.get().0).collect();
            let prepared = py.detach(|| self.0.prepare(&keys, expected_signatures));
            let prepared = prepared.map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(prepared.into_iter().map(PreparedKey).collect())
        }

        /// Verifies a batch, and returns True for each valid signature.
        #[pyo3(signature = (items, encoding = "der"))]
        fn verify_batch(
            &self,
            py: Python<'_>,
            items: Vec<Signed<'_>>,
            encoding: &str,
        ) -> PyResult<Vec<bool>> {
            let verdicts = self.run(py, items, encoding)?;
            Ok(verdicts.into_iter().map(Verdict::is_valid).collect())
        }

        /// Verifies a batch, and returns "valid", "invalid", "high_s" or "malformed" for each signature.
        #[pyo3(signature = (items, encoding = "der"))]
        fn verdicts(
            &self,
            py: Python<'_>,
            items: Vec<Signed<'_>>,
            encoding: &str,
        ) -> PyResult<Vec<&'static str>> {
            let verdicts = self.run(py, items, encoding)?;
            let name = |verdict| match verdict {
                Verdict::Valid => "valid",
                Verdict::HighS => "high_s",
                Verdict::Malformed(_) => "malformed",
                _ => "invalid",
            };
            Ok(verdicts.into_iter().map(name).collect())
        }
    }

    impl Verifier {
        fn run(&self, py: Python<'_>, items: Vec<Signed<'_>>, encoding: &str) -> PyResult<Vec<Verdict>> {
            let compact = match encoding {
                "compact" => true,
                "der" => false,
                other => {
                    let error = format!("the encoding {other:?} is unknown; use \"der\" or \"compact\"");
                    return Err(PyValueError::new_err(error));
                }
            };
            let mut parsed = Vec::with_capacity(items.len());
            for (index, (key, digest, signature)) in items.into_iter().enumerate() {
                let digest: [u8; DIGEST_BYTES] = digest[..].try_into().map_err(|_| {
                    let bytes = digest.len();
                    PyValueError::new_err(format!(
                        "item {index}: the digest has {bytes} bytes instead of 32"
                    ))
                })?;
                parsed.push((key_of(&key, index)?, digest, signature));
            }
            Ok(py.detach(|| {
                let items: Vec<Item<'_>> = parsed
                    .iter()
                    .map(|(key, digest, signature)| Item {
                        key,
                        digest: *digest,
                        signature: if compact {
                            SignatureBytes::Compact(signature)
                        } else {
                            SignatureBytes::Der(signature)
                        },
                    })
                    .collect();
                self.0.verify_batch(&items)
            }))
        }
    }

    /// Returns the key of item number `index`.
    fn key_of(key: &Bound<'_, PyAny>, index: usize) -> PyResult<engine::PublicKey> {
        if let Ok(key) = key.cast::<PublicKey>() {
            return Ok(key.get().0);
        }
        if let Ok(key) = key.cast::<PreparedKey>() {
            return Ok(*key.get().0.public_key());
        }
        let error = format!("item {index}: the key must be a PublicKey or a PreparedKey");
        Err(PyTypeError::new_err(error))
    }
}
