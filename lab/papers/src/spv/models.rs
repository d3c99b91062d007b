//! Models of throughput: the paper's model, and models of a closed loop.

/// Size of a request or a reply on Ethernet in bytes, without preamble and frame check sequence.
pub const FRAME_BYTES: u32 = 74;
/// Number of bytes that a frame takes on Ethernet in addition: preamble and start (8), frame check sequence (4), gap
/// between frames (12).
const ETHERNET_EXTRA_BYTES: u32 = 24;
/// Bit rate of the paper's link in bits per second.
pub const LINK_BITS_PER_S: f64 = 10e9;

/// Returns the number of requests per second that a link can carry in each direction.
pub fn link_rps(bits_per_s: f64) -> f64 {
    bits_per_s / 8.0 / f64::from(FRAME_BYTES + ETHERNET_EXTRA_BYTES)
}

/// Returns the throughput by the paper's equation (1): `T = (T_HW - T_SW) / 100 * H + T_SW`, with `H` in percent. It
/// holds where hits and misses are limited by the senders, independently of each other.
pub fn linear(hit_percent: f64, hit_rps: f64, miss_rps: f64) -> f64 {
    (hit_rps - miss_rps) / 100.0 * hit_percent + miss_rps
}

/// Returns the throughput as the harmonic mean `1/T = h/T_HW + (1 - h)/T_SW`: times add up if requests are processed
/// one after the other.
pub fn harmonic(hit_percent: f64, hit_rps: f64, miss_rps: f64) -> f64 {
    let hits = hit_percent / 100.0;
    1.0 / (hits / hit_rps + (1.0 - hits) / miss_rps)
}

/// Returns the bound `min(T_HW, T_SW / (1 - h))`. The server and the fast path work at the same time, and the slower
/// one limits both, because a closed loop keeps the proportion of hits and misses.
pub fn bottleneck(hit_percent: f64, hit_rps: f64, miss_rps: f64) -> f64 {
    let misses = 1.0 - hit_percent / 100.0;
    if misses <= 0.0 {
        return hit_rps;
    }
    hit_rps.min(miss_rps / misses)
}

/// Returns the throughput of a roofline model: the offered load, limited by the capacity of the system or of the link.
pub fn roof(offered_rps: f64, system_rps: f64) -> f64 {
    offered_rps.min(system_rps).min(link_rps(LINK_BITS_PER_S))
}

/// Model of throughput: a function of the hit rate in percent, the throughput of hits alone, and the throughput of
/// misses alone.
pub type Model = fn(f64, f64, f64) -> f64;

/// Models of figure 19, by name.
pub const MODELS: [(&str, Model); 3] = [
    ("linear", linear),
    ("harmonic", harmonic),
    ("slower of both", bottleneck),
];

/// Returns the error of `modelled` as a percentage of `measured`.
pub fn error_percent(modelled: f64, measured: f64) -> f64 {
    100.0 * (modelled - measured).abs() / measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gigabit_ethernet_takes_12_755_million_requests() {
        assert!((link_rps(LINK_BITS_PER_S) - 12_755_102.04).abs() < 0.01);
        assert_eq!(roof(20e6, 1e9), link_rps(LINK_BITS_PER_S));
        assert_eq!((roof(5.0, 10.0), roof(20.0, 10.0)), (5.0, 10.0));
    }

    #[test]
    fn all_models_agree_at_0_and_100_percent_and_are_ordered_between() {
        for model in [linear, harmonic, bottleneck] {
            assert!((model(0.0, 970.0, 490.0) - 490.0).abs() < 1e-9);
            assert!((model(100.0, 970.0, 490.0) - 970.0).abs() < 1e-9);
        }
        for hits in [10.0, 50.0, 90.0] {
            assert!(harmonic(hits, 970.0, 490.0) < linear(hits, 970.0, 490.0));
            assert!(harmonic(hits, 970.0, 490.0) < bottleneck(hits, 970.0, 490.0));
        }
        // If half of the requests run at 1 per second and half at 3 per second, two requests take 4/3 s.
        assert!((harmonic(50.0, 3.0, 1.0) - 1.5).abs() < 1e-12);
        assert_eq!(error_percent(110.0, 100.0), 10.0);
    }
}
