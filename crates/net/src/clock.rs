//! Clock for durations of microseconds. The clock of leases, [`lineside_fastpath::lease::now_ns`], advances in steps of
//! 4 ms on usual kernels. The clock of this module is exact; reading it takes about 25 ns, so the datapath reads it
//! once for each batch.

/// Returns CLOCK_MONOTONIC in ns. The clock of leases shows the same time, rounded down to its last step.
pub fn precise_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing, and CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::precise_ns;
    use lineside_fastpath::lease;

    #[test]
    fn the_clock_is_that_of_leases_and_has_steps_below_a_millisecond() {
        let (coarse, precise) = (lease::now_ns(), precise_ns());
        assert!(precise >= coarse && precise - coarse < 1_000_000_000);
        let first = precise_ns();
        let next = std::iter::repeat_with(precise_ns).find(|next| *next > first);
        assert!(next.expect("a later time") - first < 1_000_000_000);
        let steps = std::iter::repeat_with(precise_ns).take(1000).collect::<Vec<_>>();
        let smallest = steps
            .windows(2)
            .map(|two| two[1] - two[0])
            .filter(|step| *step > 0)
            .min();
        assert!(smallest.is_some_and(|step| step < 1_000_000), "{smallest:?}");
    }
}
