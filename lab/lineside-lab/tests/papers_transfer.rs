//! Test that runs `lineside-lab papers transfer --quick` as a user does: the tables agree with independent formulas,
//! the replays agree with the model, and the findings are the means of the tables.

mod papers_made;

use lineside_testkit::skipped;
use papers_made::{Made, assert_near, number};

/// Number of entries of the paper's store.
const ENTRIES: usize = 65_536;

/// Returns the shares of accounts that share their entry, and of those whose value was overwritten, in percent. The
/// expected numbers of entries with exactly one account and with at least one are computed by a recurrence over the
/// accounts; the program uses closed forms.
fn aliases(accounts: usize) -> (f64, f64) {
    let entries = ENTRIES as f64;
    let (mut empty, mut single) = (entries, 0.0);
    for _ in 0..accounts {
        let (to_single, from_single) = (empty / entries, single / entries);
        empty -= to_single;
        single += to_single - from_single;
    }
    let accounts = accounts as f64;
    let percent = |count: f64| 100.0 * count / accounts;
    (percent(accounts - single), percent(accounts - (entries - empty)))
}

fn check_aliasing(made: &Made) {
    let table = made.table("aliasing.csv");
    assert_eq!(table.len(), 5);
    for row in &table {
        let accounts = number(row, "accounts") as usize;
        let (sharing, wrong) = aliases(accounts);
        for (name, expected) in [("sharing", sharing), ("wrong", wrong)] {
            let computed = number(row, &format!("{name}_computed_percent"));
            assert!(
                (computed - expected).abs() < 1e-4 * expected + 1e-6,
                "{row:?}: {expected}"
            );
            // Five draws; accounts share entries in pairs, so the variance is about twice that of single accounts.
            let count = 5.0 * accounts as f64;
            let room = 100.0 * (6.0 * (2.0 * expected / 100.0 * count).sqrt() + 6.0) / count;
            let measured = number(row, &format!("{name}_measured_percent"));
            assert!((measured - expected).abs() < room, "{row:?}: {expected} ± {room}");
        }
        assert_eq!(row["lineside_wrong"], "0", "{row:?}");
    }
    let sharing = made.finding(&["share an entry, of 10,000, computed"]);
    assert_eq!(
        (&sharing["verdict"], &sharing["unit"]),
        (&"fails".into(), &"%".into())
    );
    assert_near(
        sharing["ours"].as_f64().expect("a share"),
        aliases(10_000).0,
        sharing,
    );
    // The product of the probabilities falls below a half with this number of accounts, and not before.
    let even = made.finding(&["probability of 50 %"])["ours"]
        .as_f64()
        .expect("a number") as usize;
    let apart = |accounts: usize| -> f64 {
        (1..accounts)
            .map(|taken| ((ENTRIES - taken) as f64 / ENTRIES as f64).ln())
            .sum()
    };
    assert!(
        apart(even) <= 0.5f64.ln() && apart(even - 1) > 0.5f64.ln(),
        "{even}"
    );
}

fn check_replay(made: &Made, datapaths: &[&str]) {
    let table = made.table("replay.csv");
    for datapath in datapaths {
        let rows: Vec<_> = table.iter().filter(|row| row["datapath"] == *datapath).collect();
        let packets: Vec<&str> = rows.iter().map(|row| row["packets"].as_str()).collect();
        assert_eq!(packets, ["1", "10", "100", "1000", "10000"], "{datapath}");
        for row in rows {
            assert_eq!(row["answered"], row["packets"], "{row:?}");
            assert_eq!(
                (&*row["wrong_replies"], &*row["wrong_balances"]),
                ("0", "0"),
                "{row:?}"
            );
            assert!(number(row, "packets_per_s") > 0.0);
            // Amounts are up to half of a balance, so of many transfers some are refused, but not most of them.
            let refused = number(row, "refusals") / number(row, "packets");
            assert!(
                row["packets"] != "10000" || (0.01..0.5).contains(&refused),
                "{row:?}"
            );
        }
    }
    // A file header of 24 bytes, then 16 bytes and a frame of 64 for each packet.
    for packets in [1u64, 10, 100, 1_000, 10_000] {
        let capture = made.out.join(format!("transfers-{packets}.pcap"));
        let bytes = std::fs::metadata(&capture).expect("a capture").len();
        assert_eq!(bytes, 24 + packets * 80);
    }
}

fn check_figures(made: &Made) {
    let mut means = [Vec::new(), Vec::new()];
    let mut least = f64::INFINITY;
    for (name, command, paper) in [
        ("fig07-create.csv", "CREATE", "6.25"),
        ("fig08-issue.csv", "ISSUE", "5.78"),
        ("fig09-transfer.csv", "TRANSFER", "5.97"),
        ("fig10-refer.csv", "REFER", "6.14"),
    ] {
        let table = made.table(name);
        assert_eq!(table.len(), 5, "{name}");
        for (place, client) in ["live", "socket"].into_iter().enumerate() {
            let (sw, xdp) = match client {
                "live" => ("live_sw_per_s", "live_xdp_per_s"),
                _ => ("sw_per_s", "xdp_per_s"),
            };
            let gains: Vec<f64> = table
                .iter()
                .map(|row| number(row, xdp) / number(row, sw))
                .collect();
            for (row, gain) in table.iter().zip(&gains) {
                assert_near(number(row, &format!("{client}_gain")), *gain, row);
                assert_eq!(row["paper_gain"], paper);
            }
            let mean = gains.iter().sum::<f64>() / 5.0;
            let finding = made.finding(&[&format!("of {command}, mean over"), client]);
            assert_near(finding["ours"].as_f64().expect("a gain"), mean, finding);
            assert_eq!(finding["paper"], paper);
            means[place].push(mean);
        }
        let many = table.iter().filter(|row| number(row, "packets") > 100.0);
        least = many
            .map(|row| number(row, "live_xdp_per_s"))
            .fold(least, f64::min);
    }
    for (gains, client) in means.iter().zip(["live frames", "socket client"]) {
        let finding = made.finding(&["gain in throughput, mean of the commands", client]);
        assert_near(
            finding["ours"].as_f64().expect("a gain"),
            gains.iter().sum::<f64>() / 4.0,
            finding,
        );
    }
    let finding = made.finding(&["least throughput", "xdp, live frames"]);
    assert_near(finding["ours"].as_f64().expect("a rate"), least, finding);
    assert_eq!(finding["verdict"] == "holds", least > 100_000.0);
    let table = made.table("fig11-latency.csv");
    let commands: Vec<&str> = table.iter().map(|row| row["command"].as_str()).collect();
    assert_eq!(commands, ["create", "issue", "transfer", "refer"]);
    let most = table
        .iter()
        .map(|row| number(row, "live_xdp_p50_us"))
        .fold(0.0, f64::max);
    let finding = made.finding(&["largest median latency", "live frames"]);
    assert_near(finding["ours"].as_f64().expect("a latency"), most, finding);
    assert_eq!(finding["verdict"] == "holds", most <= 7.0);
}

#[test]
fn the_quick_figures_of_transfer_agree_with_other_formulas() {
    let made = Made::quick("transfer");
    check_aliasing(&made);
    check_replay(&made, &["native", "socket"]);
    // The paper states its means with three digits.
    for (quantity, stated, computed) in [
        ("four gains in throughput", 6.04, 24.14 / 4.0),
        ("four gains in latency", 15.4, 61.5 / 4.0),
    ] {
        let finding = made.finding(&[quantity]);
        assert_near(finding["ours"].as_f64().expect("a mean"), computed, finding);
        assert_eq!(finding["paper_value"].as_f64(), Some(stated));
        assert_eq!(finding["verdict"], "holds");
    }
    let not_measured = made.not_measured();
    if not_measured.iter().any(|why| why.starts_with("replay")) {
        skipped(format_args!("replay on xdp: {not_measured:?}"));
    } else {
        check_replay(&made, &["xdp"]);
    }
    if let Some(why) = not_measured.iter().find(|why| why.starts_with("figures")) {
        skipped(why);
        return;
    }
    check_figures(&made);
}
