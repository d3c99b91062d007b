//! Quantiles of a histogram, such as the median, estimated from the counts of its buckets.

/// Quantiles that the history contains: the name, and the part of all values that are at most as large as the quantile.
pub const QUANTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// Returns an estimate of the quantile `part`. The values of a bucket are assumed to be spread evenly over it, as
/// `histogram_quantile` of Prometheus does. `bounds` are the upper bounds of the buckets. `counts` has one more item,
/// the number of values above the last bound, which count as equal to that bound. Returns `None` if there are no
/// values.
pub fn quantile(bounds: &[u64], counts: &[u64], part: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    if all == 0 {
        return None;
    }
    let rank = part * all as f64;
    let (mut below, mut low) = (0.0, 0.0);
    for (bound, count) in bounds.iter().zip(counts) {
        let (high, count) = (*bound as f64, *count as f64);
        if count > 0.0 && below + count >= rank {
            return Some(low + (high - low) * (rank - below) / count);
        }
        below += count;
        low = high;
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_in_the_bucket_that_has_its_rank() {
        // The values are 1 to 100 in buckets of 25. The estimate is exact, because they are spread evenly.
        let (bounds, counts) = ([25, 50, 75, 100], [25, 25, 25, 25, 0]);
        for part in [0.01, 0.25, 0.5, 0.9, 0.99, 1.0] {
            let value = quantile(&bounds, &counts, part).expect("values");
            assert!((value - 100.0 * part).abs() < 1e-9, "{part}: {value}");
        }
    }

    #[test]
    fn empty_buckets_are_skipped_and_values_above_the_last_bound_count_as_it() {
        assert_eq!(quantile(&[1, 2, 4], &[0, 0, 2, 0], 0.5), Some(3.0));
        assert_eq!(quantile(&[1, 2, 4], &[1, 0, 0, 9], 0.99), Some(4.0));
        assert_eq!(quantile(&[1, 2, 4], &[0; 4], 0.5), None);
    }
}
